// Package optest is the conformance suite of the port op.Table: what its doc
// comment promises, tried on a real engine. Every engine runs it, so that none
// can drift from the others.
package optest
