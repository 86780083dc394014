// Package fair shows what the fair order does: it plays loads against the real
// services (admission, workers, aggregator) over an in-memory table, on the virtual clock of
// testing/synctest, once as they are and once with the mechanism taken out of what
// they write, and holds the figures against their bounds.
//
// Calls of the store take 1 to 5 ms, messages 5 to 30 ms, indexes lag by up to
// 20 ms: about what they take in one region. What a run shows is therefore the
// schedule, not the speed of this machine. Some loads are played once more on the embedded
// engine in real time, where it does depend on the machine: they are printed and not judged.
package fair
