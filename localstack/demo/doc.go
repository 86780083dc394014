// Package demo is the burst test: seven steps that a queue which refuses what it cannot finish in time must pass,
// played over HTTP on a pool of two workers.
//
// What it guarantees: it judges by what the server says (decisions, predictions, time stamps of tasks, metrics) and
// never by how fast it answers, so that a slow machine is no failure; and a server that predicts nothing fails.
package demo
