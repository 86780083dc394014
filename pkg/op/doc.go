// Package op holds the values in which every read and write of the store is
// expressed: keys, items, conditions, updates and the one port, [Table], that
// engines implement.
//
// A business operation is built once, as plain values, and means the same on
// every engine: DynamoDB's adapter renders it as expressions, the embedded
// engine interprets it with [Eval] and [Apply]. What is guaranteed of each
// engine is written on [Table] and held by the conformance suite optest.
//
// The vocabulary is deliberately small, because it may only contain what
// DynamoDB does in one atomic call: conditions cannot do arithmetic (compare
// with limit − amount instead), there is no "not equal" (its meaning for a
// missing attribute surprises), and every comparison with a missing attribute
// or with a value of another type is false.
package op
