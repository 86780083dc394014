// Package archtest holds the module to its architecture. Its tests read the
// import graph and the sources, and fail with the reason when
//
//   - a package imports, or a binary links, what its layer may not (the table
//     in rules_test.go),
//   - the pure packages read a clock or global randomness,
//   - a function's main does more than wire, or a file has outgrown the head.
//
// The tests need nothing but the go command. Each rule is itself tested: a
// graph that breaks it must be reported.
package archtest
