package simtest

// orderMutants are the checks of the services on which order per key, the fair order and
// the slots of low priority rest.
var orderMutants = []serviceMutant{
	{"chain/chain.go", " && head.Seq == c.Head {", " {", "a task that was taken up again holds up its key from its old place"},
	{"chain/chain.go", "if head != nil && head.State.Live() &&", "if head != nil && head.State == task.Running &&", "a head that does not run is passed over"},
	{"chain/chain.go", "if !head.Held || head.State != task.Waiting {", "if true {", "nobody comes up"},
	{"chain/chain.go", "return err == nil && next != 0, err", "return false, err", "the next one is named and never comes up"},
	{"intake/submit.go", "h.held = a.p.chain.Head != 0", "h.held = false", "the second of a key is eligible at once"},
	{"intake/submit.go", " && !halted && !h.held", " && !halted", "a held task takes a slot"},
	{"intake/again.go", "decided.Held, decided.Seq", "decided.Held, t.Seq", "a task that is taken up again keeps its old number"},
	{"intake/again.go", "t.Low, t.Parked, t.Held, t.Seq = decided.Low, decided.Parked, decided.Held, decided.Seq",
		"t.Low, t.Parked, t.Seq = decided.Low, decided.Parked, decided.Seq", "a task that is taken up again is eligible at once"},
	{"intake/cancel.go", "passOn(ctx, s.Table, t)\n", "\n", "a cancel does not pass the turn on"},
	{"execute/finish.go", "s.passOn(ctx, t, task.Must(task.Running, v.end.Event).To)", "", "an end does not pass the turn on"},
	{"execute/execute.go", "s.passOn(ctx, t, task.Expired)", "", "an expiry found by a worker does not pass the turn on"},
	{"aggregate/due.go", "r.looked[key] = true\n\treturn chain.Ended(ctx, r.Table, t)", "return nil", "a visit does not find whose turn it is"},

	{"intake/predict.go", "return fair.Start(v.lane.Virtual, ", "return fair.Start(0, ", "a start tag lies before the lane's virtual time"},
	{"intake/accept.go", "ShiftMS: fair.Shift(policy.PriorityRank(p.priorityName))", "ShiftMS: 0 * fair.Shift(policy.PriorityRank(p.priorityName))", "priorities are not in the key"},
	{"intake/accept.go", "TagCost: fair.Cost(h.entry.AmountMS, p.tier.Weight)", "TagCost: h.entry.AmountMS", "a task is charged as if its tenant had no weight"},
	{"execute/finish.go", "&after, taskop.TagDelta(t, now), ", "&after, 0, ", "an end does not correct what was charged"},
	{"aggregate/due.go", ", TagDelta: taskop.TagDelta(t, nowMS)", "", "a lost attempt stays charged as estimated"},
	{"aggregate/due.go", "back.AtLane, back.Tag = l.Name, retryTag(t)", "back.AtLane = l.Name", "retries keep their fair tag"},
	{"execute/next.go", "if !ok && taskop.Beyond(met, virtual) && virtual > lane.Virtual {", "if false {", "a hand-over fails because the lane is further on"},

	{"intake/accept.go", "Low: a.low(p),", "", "a task of low priority is not known as one"},
	{"intake/submit.go", "Low: a.low(a.p)}", "}", "a slot of low priority counts as another's"},
	{"execute/next.go", "out = append(low, out...)", "out = append(out, low...)", "a hand-over passes low priority over"},
	{"execute/next.go", "if held >= kept {", "if true {", "a hand-over goes by the order alone"},
	{"execute/next.go", "if held >= kept {", "if false {", "low priority gets every slot"},
	{"execute/next.go", "held-- // its slot is the one that is given", "", "low priority does not pass its own slot on"},
	{"execute/next.go", "for at > 0 && h.order < out[at-1].order {", "for at > 0 {", "the tenant's own parked task goes before everybody"},
	{"aggregate/release.go", "- l.LowHeld()); kept > 0 {", "- l.LowHeld()); false {", "a release passes low priority over"},
	{"aggregate/release.go", "kept = min(kept, l.Slots-l.Open)", "kept = l.Slots", "a release gives low priority every slot"},
	{"aggregate/release.go", "return r.releaseFrom(ctx, l, taskop.LowPartition(l.Name), releasesPerTick)", "return nil", "no slot is lent to low priority"},

	{"aggregate/release.go", "n, err := r.unparkTenant(ctx, l, head.Tenant, left)", "n, err := 0, error(nil)", "a tick does not unpark"},
	{"aggregate/release.go", " || head.Tenant == taskop.HeldOwner() {", " {", "a tick unparks who waits for others of its key"},
	{"execute/next.go", "if lane.Parked <= 0 || ended == nil {", "if true {", "who waits for its tenant's attempts waits for a tick"},
}
