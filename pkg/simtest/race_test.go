//go:build race

package simtest

func init() { underRace = true }
