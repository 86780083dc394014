// Package plan decides what a deployment consists of, as plain values: the
// functions with their settings and permissions, the lanes' queues and
// mappings, the alarms and the dashboard. Package stacks renders it with the
// CDK and decides nothing itself.
//
// It guarantees that a plan which New returns keeps the rules below, each of
// which costs tasks when broken; what breaks one is refused with every fault
// at once.
//
//   - MaximumConcurrency is from 2 to the lane's reserve: what the mapping starts
//     above the reserve is throttled, burns receives and ends in the DLQ unrun.
//   - The reserves fit the account's quota, less the 100 that Lambda keeps.
//   - A queue's visibility is at least six function timeouts and the window.
//   - A message is received at least five times before it goes to the DLQ.
//   - No two resources of any environments share a name.
//
// This package does not import the CDK, so it is tested with everything else.
// What does is behind the build tag cdk, because the bindings take a minute to
// compile and need Node to run: go build -tags cdk ./infra.
package plan
