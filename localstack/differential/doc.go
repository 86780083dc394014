// Package differential holds the embedded table and DynamoDB's adapter to one
// another: seeded random sequences of writes, transactions and reads run on
// both, and each outcome, each item that failed a condition, the final rows
// and the contents of the indexes must be the same.
//
// DynamoDB itself is not at hand, so emulators stand in for it: one in the
// process (package emulator) and, where DYNAMODB_ENDPOINT names one, a server.
// Each emulator is wrong somewhere. Where it differs, AWS's documentation
// decides; known differences are listed with the probe that shows each, so
// that one that is mended, or a new one, is noticed.
package differential
