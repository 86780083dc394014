package op

import "errors"

// Faults of the caller that engines report by value; test with errors.Is.
var (
	// ErrTooLarge says that an item would exceed MaxItemBytes or a transaction
	// MaxTxBytes. Nothing was written.
	ErrTooLarge = errors.New("op: item or transaction too large")
	// ErrBadCursor says that a query's cursor was not made by this query: it is
	// garbled, or belongs to another index, partition or range.
	ErrBadCursor = errors.New("op: bad cursor")
)
