package rig

import (
	"sync"
	"time"
)

// Manual is a clock that stands until it is moved.
type Manual struct {
	mu  sync.Mutex
	now time.Time
}

// NewManual makes a clock that shows noon of a day in 2026, UTC.
func NewManual() *Manual { return &Manual{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

// Now is the time it shows.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Advance moves it.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}
