// Package awsboot wires services to AWS from the environment: what a Lambda
// main calls, and nothing else. Every fault of the environment is reported
// together. AWS configuration is loaded once per cold start, without a call.
package awsboot
