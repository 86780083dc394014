// Package environment describes a deployment: what one environment (dev,
// staging, prod) sets differently, and the names of its resources.
//
// It guarantees that two environments never share a name in one account and
// region: every name carries the environment's. Names are functions of the
// environment and the lane alone, so that the deployment, the functions and the
// command line agree on them without looking anything up, and stacks need no
// exports, which would keep a lane from ever being removed.
//
// A file is read strictly: unknown keys are refused and every fault is
// reported together.
package environment
