// Package e2e is the end-to-end suite: it talks to a running system over HTTP
// and knows nothing of what is behind it, so that the very same cases judge the
// embedded engine (make e2e) and the stacks deployed to an emulator of AWS
// (make localstack-test), where every call is a Lambda invocation of the real
// binaries.
//
// Times are generous: a slow machine must not fail a case, and no case is about
// speed. Every case cleans up what it leaves.
package e2e
