package fair

// Load is what a tenant can put before a task of anybody.
type Load struct {
	Weight    float64
	LargestMS int64 // the largest amount of its tasks
	// SpreadMS is the difference between the largest and the smallest shift of the
	// priorities that it mixes; 0 where it has one.
	SpreadMS int64
}

// Bound is the longest that an eligible task waits which came with start tag
// start and shift shiftMS into a lane whose virtual time was virtual, ms:
//
//	(Σ over tenants (weight·(K − V + spread) + largest) + residuals) / slots,   K = start + shift − min(topShift, 0)
//
// topShift is the smallest shift in use there. Tasks that begin before it have keys up to
// its own, so tags up to K, and none that still waits has a tag before V (less its own
// shift, where that puts it back), or it would have begun before. Of
// each tenant, the task's own included, these are weight·(K − V) of work and one task
// more; all slots are at work on them, and on what ran when it came, until it begins.
//
// It holds for tasks that take what they were charged for; what others take
// more is residual. Later arrivals are in it: nobody can come in before K for ever.
func Bound(start, virtual, shiftMS, topShift int64, tenants []Load, residualMS int64, slots int) int64 {
	ahead := max(start+shiftMS-min(topShift, 0)-virtual, 0)
	work := residualMS
	for _, l := range tenants {
		work += int64(l.Weight*float64(ahead+l.SpreadMS)) + 1 + l.LargestMS
	}
	n := int64(max(slots, 1))
	return (work + n - 1) / n
}
