// The worker function for classes whose target is built in. Your own classes
// need a worker binary of your own: see package worker.
package main

import (
	"github.com/lanekeeper/lanekeeper/pkg/worker"
	"github.com/lanekeeper/lanekeeper/pkg/worker/lambdaworker"
)

func main() { lambdaworker.Start(worker.New()) }
