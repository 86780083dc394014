// Package trace follows a task from its submission through queue and hand-over
// to its end, in spans of one W3C trace context that stands on the task's row.
//
// Guaranteed:
//
//   - All spans of a task have the trace id on its row; those after its submission
//     are children of its submission's span, whichever process writes them.
//   - A trace that a client brings is sampled if and only if its flag says so; of the
//     others the configured share is. What is not sampled writes no span, and a
//     submission without a trace of its own then leaves none on the row either.
//   - A span holds identifiers, times and outcomes: no payload, result, text of a
//     handler, or credential can get into it.
//
// A nil *Tracer follows nothing and changes nothing.
package trace
