// Package aggregate is the housekeeping that makes everything else's promises
// come true: it releases waiting tasks when slots are free, visits what is due
// (unclaimed messages, lapsed leases, retries, tasks that can no longer start),
// keeps the lane items true, and publishes estimates from completed work.
//
// One run holds a lease with an epoch and ticks once a second. Losing the
// lease, or running twice, is harmless: every write is conditional on what was
// read, and what could go backwards carries the epoch.
package aggregate
