// Package prom writes and reads the Prometheus text format 0.0.4.
//
// A [Set] is one scrape: families are declared, samples are put in, and the whole
// is written sorted by name and labels, each family under its HELP and TYPE.
// Guaranteed: what is written is valid or an error that names every fault (bad
// or repeated names, labels and series), and [Parse] reads it back to the same.
//
// It is no client library: values are read where they live when a scrape comes,
// nothing is registered and nothing is counted here.
package prom
