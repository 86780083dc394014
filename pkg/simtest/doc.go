// Package simtest runs the real services (admission, worker, aggregator) in a
// simulated world and holds what they do against the promises of the design.
//
// One seeded scheduler grants every outside call, of the table and of the
// queues, one at a time, in an order and at times that it draws; the clock is
// the virtual one of testing/synctest. Between two calls the services run their
// own unchanged code. The world plays Lambda and its event source mappings:
// at-least-once and unordered delivery, receive counts, visibility, time limits,
// kills, frozen instances, skewed clocks. Around every call a shell injects what
// stores do: throttles, conflicts, time-outs, writes that were applied but
// answered with an error, or applied after the caller gave up.
//
// What is guaranteed: a run is a function of its seed and options, so that a
// failure can be replayed, traced and shrunk; a killed instance has no effect
// after its death; and every applied write is checked against the model before
// the next call is granted (see model.go for the list).
package simtest
