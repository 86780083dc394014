// Package clock is the one place where services get the time from, so that
// tests can give them another.
package clock

import "time"

// Clock tells the time.
type Clock func() time.Time

// System is the machine's clock.
func System() time.Time { return time.Now() }
