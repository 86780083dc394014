// The redrive function, which empties the dead-letter queues.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lanekeeper/lanekeeper/pkg/awsboot"
)

func main() {
	if err := run(context.Background(), os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, "redrive:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, getenv awsboot.Getenv) error {
	handle, err := awsboot.Redrive(ctx, getenv)
	if err != nil {
		return err
	}
	lambda.StartWithOptions(handle.Handle, lambda.WithContext(ctx))
	return nil
}
