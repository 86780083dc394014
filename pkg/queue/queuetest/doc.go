// Package queuetest is the conformance suite of the message queues: what SQS
// documents of a standard queue and the services rely on. The embedded queue runs
// it on an injected clock, SQS-like servers on the real one.
package queuetest
