package taskop

import (
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Attributes of a tenant's ledger.
const (
	lWork    = "work"    // amounts of its waiting, queued and retry_wait tasks, ms
	lActive  = "active"  // its running attempts
	lMax     = "max"     // max_active of its tier, as of its last accept
	lEntered = "entered" // all work that ever came in, ms; only grows
	lTAT     = "tat"     // GCRA's theoretical arrival time, unix µs
	lDay     = "day"     // the UTC day of lDayWork, days since 1970
	lDayWork = "dayw"    // work accepted on that day, ms

	finishPrefix = "f#" // f#<lane>: the finish tag of the tenant's last task there
)

// Ledger is a tenant's ledger.
type Ledger struct {
	WorkMS, Active, EnteredMS int64
	MaxActive                 int64
	TATMicros                 int64
	Day, DayWorkMS            int64
	Finish                    map[string]int64 // finish tags by lane
}

// LedgerList is the due index's partition of all ledgers, by tenant.
const LedgerList = "L"

// DecodeLedger reads a ledger; a missing one (nil) is empty.
func DecodeLedger(it op.Item) Ledger {
	l := Ledger{
		WorkMS: it.Int(lWork), Active: it.Int(lActive), EnteredMS: it.Int(lEntered), MaxActive: it.Int(lMax),
		TATMicros: it.Int(lTAT), Day: it.Int(lDay), DayWorkMS: it.Int(lDayWork),
	}
	for attr, v := range it {
		if lane, ok := strings.CutPrefix(attr, finishPrefix); ok {
			if l.Finish == nil {
				l.Finish = map[string]int64{}
			}
			l.Finish[lane] = v.Int()
		}
	}
	return l
}

// DayWork is the work accepted on the given day.
func (l Ledger) DayWork(day int64) int64 {
	if l.Day != day {
		return 0
	}
	return l.DayWorkMS
}

// Day is the UTC day of a time, in days since 1970.
func Day(nowMS int64) int64 { return nowMS / 86_400_000 }

// DayEndMS is how long the UTC day still lasts.
func DayEndMS(nowMS int64) int64 { return 86_400_000 - nowMS%86_400_000 }

// RateUse is a GCRA step on the ledger: the cell conforms when tat − now ≤
// Tolerance, and moves tat on by Interval from max(tat, now). Conditions cannot
// take a maximum, so Idle (tat ≤ now) says which form is written; the form is
// part of the condition.
type RateUse struct {
	NowMicros, IntervalMicros, ToleranceMicros int64
	Idle                                       bool
}

// FairUse moves a tenant's finish tag in a lane from max(Virtual, Finish) on by
// Cost. Exact demands that the tag is still Finish, so that the task's start tag
// is right; else the tag only must not lie beyond Virtual when it did not before.
type FairUse struct {
	Lane                  string
	Virtual, Finish, Cost int64
	Exact                 bool
}

func (u *FairUse) terms() (op.Cond, op.Change) {
	attr := finishPrefix + u.Lane
	behind := u.Finish <= u.Virtual
	set := op.SetN(attr, max(u.Virtual, u.Finish)+u.Cost)
	switch {
	case u.Exact:
		return op.Equals(attr, u.Finish), set
	case behind:
		return op.AtMost(attr, u.Virtual), set
	default:
		// A refund may have moved the tag below Virtual meanwhile. Then the tenant is
		// charged a little less; insisting would cost a transaction more, often.
		return nil, op.Add(attr, u.Cost)
	}
}

// refund moves a finish tag by what a task cost less (or more) than charged.
func refund(w op.Write, lane string, delta int64) op.Write {
	if delta != 0 {
		w.Changes = append(w.Changes, op.Add(finishPrefix+lane, delta))
	}
	return w
}

// LedgerUse is what an accept takes from a ledger and under which conditions.
type LedgerUse struct {
	AmountMS     int64
	MaxActive    int64 // noted on the ledger, where claims are held against it
	WorkMaxMS    int64 // work must be at most this before
	EnteredMaxMS int64 // entered must be at most this before
	Rate         *RateUse
	Day          int64 // UTC day; 0 keeps no daily account
	DayMaxMS     int64 // the day's work must be at most this before
	NewDay       bool  // the ledger's day is before Day
	Fair         *FairUse
}

func acceptLedger(name, tenant string, u LedgerUse) op.Write {
	cond := op.All{op.AtMost(lWork, u.WorkMaxMS), op.AtMost(lEntered, u.EnteredMaxMS)}
	changes := []op.Change{op.Add(lWork, u.AmountMS), op.Add(lEntered, u.AmountMS), op.SetN(lMax, u.MaxActive),
		// Lists the ledger for whoever checks them all. The keys never change, so the index is written once.
		op.SetS(dueKey, LedgerList), op.SetS(dueSort, tenant)}
	if r := u.Rate; r != nil {
		if r.Idle {
			cond = append(cond, op.AtMost(lTAT, r.NowMicros))
			changes = append(changes, op.SetN(lTAT, r.NowMicros+r.IntervalMicros))
		} else {
			cond = append(cond,
				op.Cmp{Attr: lTAT, Op: op.Gt, Value: op.N(r.NowMicros)},
				op.Cmp{Attr: lTAT, Op: op.Le, Value: op.N(r.NowMicros + r.ToleranceMicros)})
			changes = append(changes, op.Add(lTAT, r.IntervalMicros))
		}
	}
	if u.Fair != nil {
		term, change := u.Fair.terms()
		if term != nil {
			cond = append(cond, term)
		}
		changes = append(changes, change)
	}
	if u.Day != 0 {
		if u.NewDay {
			cond = append(cond, op.AtMost(lDay, u.Day-1))
			changes = append(changes, op.SetN(lDay, u.Day), op.SetN(lDayWork, u.AmountMS))
		} else {
			cond = append(cond, op.Is(lDay, op.N(u.Day)), op.AtMost(lDayWork, u.DayMaxMS))
			changes = append(changes, op.Add(lDayWork, u.AmountMS))
		}
	}
	return op.Write{Name: name, Key: LedgerKey(tenant), Action: op.Update, Cond: cond, Changes: changes}
}

// moveLedger changes a ledger by a transition's amounts. Nothing it releases
// can be more than what is there, unless the ledger was tampered with: the
// condition makes that visible instead of going below zero.
func moveLedger(name, tenant string, work, active, amountMS int64) op.Write {
	var cond op.All
	var changes []op.Change
	if work != 0 {
		changes = append(changes, op.Add(lWork, work*amountMS))
		if work < 0 {
			cond = append(cond, op.Cmp{Attr: lWork, Op: op.Ge, Value: op.N(amountMS)})
		} else {
			changes = append(changes, op.Add(lEntered, amountMS))
		}
	}
	if active != 0 {
		changes = append(changes, op.Add(lActive, active))
		if active > 0 {
			cond = append(cond, op.Any{op.Missing{Attr: lActive}, op.CmpAttr{Attr: lActive, Op: op.Lt, Other: lMax}})
		} else {
			cond = append(cond, op.Cmp{Attr: lActive, Op: op.Ge, Value: op.N(1)})
		}
	}
	w := op.Write{Name: name, Key: LedgerKey(tenant), Action: op.Update, Changes: changes}
	if len(cond) > 0 {
		w.Cond = cond
	}
	return w
}

// RepairLedger corrects what a ledger, as it was read, says is reserved. It
// fails when anything was reserved or released since.
func RepairLedger(tenant string, l Ledger, workMS, active int64) op.Write {
	changes := []op.Change{op.SetN(lWork, workMS), op.SetN(lActive, active)}
	if workMS > l.WorkMS { // work that copies did not know of must void them
		changes = append(changes, op.SetN(lEntered, l.EnteredMS+workMS-l.WorkMS))
	}
	return op.Write{Name: "ledger.repair", Key: LedgerKey(tenant), Action: op.Update,
		Cond:    op.All{op.Equals(lWork, l.WorkMS), op.Equals(lActive, l.Active), op.Equals(lEntered, l.EnteredMS)},
		Changes: changes}
}
