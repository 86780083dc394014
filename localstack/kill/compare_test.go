package kill

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/events"
)

// words are what the journal says of an attempt with an outcome.
var words = map[events.AttemptOutcome]string{
	events.AttemptSucceeded: done, events.AttemptFailed: failed, events.AttemptHandedBack: paused,
}

// noted is what the journal says of one attempt.
type noted struct {
	pid, word string // word "": it began and did not come to an end
}

// compare holds the accounts against one another. Delivery at least once permits
// one thing: an attempt whose process was killed may have done its work and be
// tried again. The task's history names it lost_worker. All else has to agree.
func compare(t *testing.T, l *ledger, all []events.Task, journal []entry) {
	for _, err := range l.faults {
		t.Error(err)
	}
	byID := map[string]events.Task{}
	for _, x := range all {
		byID[x.ID] = x
	}
	told := map[string]accepted{}
	for _, a := range l.told {
		if other, twice := told[a.id]; twice {
			t.Errorf("%s was given to two requests: %s and %s", a.id, other.body, a.body)
		}
		told[a.id] = a
		if _, ok := byID[a.id]; !ok {
			t.Errorf("%s was accepted and is lost", a.id)
		}
	}
	if extra := len(byID) - len(told); len(told) != submissions || extra < 0 || extra > l.unsure {
		t.Errorf("%d accepted, %d tasks; %d submissions were not answered", len(told), len(byID), l.unsure)
	}
	attempts := read(t, journal, byID)
	last := journal[len(journal)-1].pid // the process that was not killed amid work
	states, lost, redone, handedBack := map[events.State]int{}, 0, 0, 0
	for id, x := range byID {
		states[x.State]++
		if len(x.Attempts) != x.Attempt {
			t.Errorf("%s: %d attempts, a history of %d", id, x.Attempt, len(x.Attempts))
			continue
		}
		for i, a := range x.Attempts {
			if a.Outcome == events.AttemptHandedBack {
				handedBack++
			}
			n, begun := attempts[id][a.Attempt]
			switch {
			case a.Attempt != i+1:
				t.Errorf("%s: attempt %d stands at %d of its history", id, a.Attempt, i+1)
			case a.Outcome == events.AttemptLostWorker:
				lost++
				if n.word != "" {
					redone++
				}
				if begun && n.pid == last {
					t.Errorf("%s: attempt %d is called lost, its process was not killed", id, a.Attempt)
				}
			case a.Outcome == events.AttemptCancelled: // it came to an end, and its cancel was requested by then
				if !begun || n.word != failed && n.word != paused {
					t.Errorf("%s (%s): attempt %d is cancelled, its handler noted %q", id, x.Class, a.Attempt, n.word)
				}
			case !begun || words[a.Outcome] == "" || n.word != words[a.Outcome]:
				t.Errorf("%s (%s): attempt %d is %s, its handler noted %q", id, x.Class, a.Attempt, a.Outcome, n.word)
			}
		}
		for n := range attempts[id] {
			if n > x.Attempt {
				t.Errorf("%s has %d attempts, and attempt %d ran", id, x.Attempt, n)
			}
		}
		ends(t, x, told[id].cancel)
	}
	t.Logf("%v; %d attempts of %d lost, %d of them had done their work; %d submissions unanswered, %d of them accepted",
		states, lost, len(journal), redone, l.unsure, len(byID)-len(told))
	if lost == 0 || lost > kills*slots {
		t.Errorf("%d attempts lost in %d kills of %d slots", lost, kills, slots)
	}
	if states[events.StateSucceeded] < submissions/2 || states[events.StateFailed] == 0 || states[events.StateCancelled] == 0 || handedBack == 0 {
		t.Errorf("too little happened: %v, %d attempts handed back", states, handedBack)
	}
}

// ends wants a task to have ended as its class does, once.
func ends(t *testing.T, x events.Task, cancelled bool) {
	want := events.StateSucceeded
	if x.Class == "wrong" {
		want = events.StateFailed
	}
	if x.State != want && !(cancelled && x.State == events.StateCancelled) {
		t.Errorf("%s (%s, cancelled: %v) is %s", x.ID, x.Class, cancelled, x.State)
	}
	for i, a := range x.Attempts {
		final := a.Outcome == events.AttemptSucceeded || a.Outcome == events.AttemptFailed && x.Class == "wrong"
		if final != (i == len(x.Attempts)-1 && x.State != events.StateCancelled) {
			t.Errorf("%s (%s) is %s, its attempt %d of %d is %s", x.ID, x.Class, x.State, a.Attempt, len(x.Attempts), a.Outcome)
		}
	}
}

// read sorts the journal by task and attempt. Attempts come in order and none
// runs twice or beside another: it begins after the one before came to its end, or in a later process.
func read(t *testing.T, journal []entry, known map[string]events.Task) map[string]map[int]noted {
	attempts, latest := map[string]map[int]noted{}, map[string]int{}
	for _, e := range journal {
		if _, ok := known[e.id]; !ok {
			t.Errorf("a handler ran for %s, which nobody knows", e.id)
		}
		if attempts[e.id] == nil {
			attempts[e.id] = map[int]noted{}
		}
		n, begun := attempts[e.id][e.attempt]
		if e.word != began {
			if !begun || n.word != "" || n.pid != e.pid || e.attempt != latest[e.id] {
				t.Errorf("%s: attempt %d noted %q after %+v, the latest is %d", e.id, e.attempt, e.word, n, latest[e.id])
			}
			attempts[e.id][e.attempt] = noted{e.pid, e.word}
			continue
		}
		before, seen := attempts[e.id][latest[e.id]]
		if begun || e.attempt <= latest[e.id] || seen && before.word == "" && before.pid == e.pid {
			t.Errorf("%s: attempt %d begins beside or after attempt %d (%+v)", e.id, e.attempt, latest[e.id], before)
		}
		attempts[e.id][e.attempt], latest[e.id] = noted{pid: e.pid}, e.attempt
	}
	return attempts
}
