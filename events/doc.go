// Package events holds Lanekeeper's contracts with the outside: the HTTP API (openapi.yaml), the queue message and
// the schedule's event (JSON Schemas), and the Go types of all of them.
//
// What is guaranteed: a value of these types encodes to exactly what the schemas allow, field for field and in the
// order in which they document it; samples of every event are decoded, encoded and compared in this package's tests.
// Inside, durations are int64 milliseconds and instants int64 Unix milliseconds; at this edge they become numbers of
// seconds ([Seconds]) and RFC 3339 texts ([Time]).
//
// The package imports the standard library only, so that every function can import it.
package events
