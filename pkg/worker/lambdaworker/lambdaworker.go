// Package lambdaworker runs a [worker.Mux] as an AWS Lambda function: the main of
// your own worker binary.
package lambdaworker

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lanekeeper/lanekeeper/pkg/awsboot"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// Start serves the lane that the environment names. It does not return; a fault
// of the environment ends the process with a message that names them all.
func Start(mux *worker.Mux) {
	h, err := awsboot.Worker(context.Background(), os.Getenv, mux)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	lambda.Start(h.Handle)
}
