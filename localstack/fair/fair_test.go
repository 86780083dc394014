package fair

import (
	"os"
	"testing"
)

func TestHog(t *testing.T) { r := &Report{Out: os.Stdout}; r.Hog(t) }
func TestW(t *testing.T)   { r := &Report{Out: os.Stdout}; r.Weights(t) }
func TestC(t *testing.T)   { r := &Report{Out: os.Stdout}; r.Cancelled(t) }
func TestS(t *testing.T)   { r := &Report{Out: os.Stdout}; r.Sharding(t) }
func TestF(t *testing.T)   { r := &Report{Out: os.Stdout}; r.Flood(t) }
