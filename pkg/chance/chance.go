// Package chance is the one place where services get randomness from, so that
// a run can be replayed from its seed with other sources.
package chance

import (
	crand "crypto/rand"
	"encoding/hex"
	"math/rand/v2"

	"github.com/google/uuid"
)

// Float returns a number in [0, 1), for jitter. Safe for concurrent use.
func Float() float64 { return rand.Float64() }

// NewID returns an unguessable UUID (version 7: in order of time).
func NewID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic("chance: " + err.Error()) // the system has no randomness
	}
	return id.String()
}

// NewToken returns an unguessable token of 16 characters (80 bits), for leases.
func NewToken() string { return crand.Text()[:16] }

// Hex returns so many random bytes in hexadecimal, for trace and span ids.
func Hex(bytes int) string {
	b := make([]byte, bytes)
	_, _ = crand.Read(b) // never fails: it ends the process instead
	return hex.EncodeToString(b)
}
