package task_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/task"
)

var update = flag.Bool("update", false, "rewrite docs/states.md")

// holdings is what a task in a state holds of its tenant's ledger, written
// down apart from the table so that the two can disagree.
func holdings(s task.State) (work, active int) {
	switch s {
	case task.Waiting, task.Queued, task.RetryWait:
		return 1, 0
	case task.Running:
		return 0, 1
	}
	return 0, 0
}

func TestEveryTransitionMovesWhatItsStatesHold(t *testing.T) {
	seen := map[string]bool{}
	for _, tr := range task.Transitions {
		name := fmt.Sprintf("%s on %s", tr.From, tr.Event)
		if seen[name] {
			t.Errorf("%s is listed twice", name)
		}
		seen[name] = true
		if tr.From != task.None && !tr.From.Valid() || !tr.To.Valid() {
			t.Errorf("%s leads from or to no state of a row (%s)", name, tr.To)
		}
		if tr.From.Terminal() {
			t.Errorf("%s leaves a terminal state", name)
		}
		fromWork, fromActive := holdings(tr.From)
		toWork, toActive := holdings(tr.To)
		if tr.Work != toWork-fromWork || tr.Active != toActive-fromActive {
			t.Errorf("%s moves work %+d and active %+d; its states differ by %+d and %+d", name, tr.Work, tr.Active, toWork-fromWork, toActive-fromActive)
		}
		if tr.When == "" {
			t.Errorf("%s does not say when", name)
		}
		if got, ok := task.Next(tr.From, tr.Event); !ok || got != tr {
			t.Errorf("Next(%s, %s) = %+v, %v", tr.From, tr.Event, got, ok)
		}
	}
}

func TestStatesAreLiveTerminalOrQuarantined(t *testing.T) {
	for _, s := range task.States() {
		work, active := holdings(s)
		if s.Live() != (work+active > 0) {
			t.Errorf("%s: live is %v, but it holds %d and %d", s, s.Live(), work, active)
		}
		kinds := 0
		for _, is := range []bool{s.Live(), s.Terminal(), s == task.Quarantined} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			t.Errorf("%s is of %d kinds", s, kinds)
		}
	}
	for _, s := range []task.State{task.None, "done"} {
		if s.Valid() || s.Live() || s.Terminal() {
			t.Errorf("%q counts as a state of a row", s)
		}
	}
}

// TestEveryStateIsReachedAndCanEnd walks the table: no state is a dead end but
// the terminal ones, and none is out of reach.
func TestEveryStateIsReachedAndCanEnd(t *testing.T) {
	reach := map[task.State]bool{task.None: true}
	ends := map[task.State]bool{}
	for _, s := range task.States() {
		ends[s] = s.Terminal()
	}
	for range task.Transitions {
		for _, tr := range task.Transitions {
			reach[tr.To] = reach[tr.To] || reach[tr.From]
			ends[tr.From] = ends[tr.From] || ends[tr.To]
		}
	}
	for _, s := range task.States() {
		if !reach[s] || !ends[s] {
			t.Errorf("%s: reachable %v, can end %v", s, reach[s], ends[s])
		}
	}
}

// TestWalksBalance takes random events: what the table does not list does not
// happen, terminal states stay, and the reservations of any path add up to
// what the state at its end holds, never below zero on the way.
func TestWalksBalance(t *testing.T) {
	states := append([]task.State{task.None}, task.States()...)
	var events []task.Event
	for _, tr := range task.Transitions {
		events = append(events, tr.Event)
	}
	rapid.Check(t, func(t *rapid.T) {
		state, work, active, ended := task.None, 0, 0, false
		for _, e := range rapid.SliceOfN(rapid.SampledFrom(events), 1, 60).Draw(t, "events") {
			tr, ok := task.Next(state, e)
			if !ok {
				continue
			}
			if ended {
				t.Fatalf("%s on %s left a terminal state", state, e)
			}
			state, work, active = tr.To, work+tr.Work, active+tr.Active
			if work < 0 || active < 0 || work+active > 1 {
				t.Fatalf("in %s after %s: work %d, active %d", state, e, work, active)
			}
			if !state.Live() && (work != 0 || active != 0) {
				t.Fatalf("%s still holds work %d, active %d", state, work, active)
			}
			ended = state.Terminal()
		}
		if from := rapid.SampledFrom(states).Draw(t, "from"); from.Terminal() {
			if tr, ok := task.Next(from, rapid.SampledFrom(events).Draw(t, "event")); ok {
				t.Fatalf("%s is left: %+v", from, tr)
			}
		}
	})
}

func TestMustPanicsOnAMoveTheTableDoesNotKnow(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("succeeding while waiting went through")
		}
	}()
	task.Must(task.Waiting, task.Succeed)
}

// TestStatesDocument holds docs/states.md against the table; -update rewrites it.
func TestStatesDocument(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "states.md")
	want := document()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Error("docs/states.md is not what the table says; run: go test ./pkg/task -run TestStatesDocument -update")
	}
}

func document() string {
	var b strings.Builder
	b.WriteString(`# Life of a task

<!-- Generated from the table in pkg/task: go test ./pkg/task -run TestStatesDocument -update -->

The row in the table is the truth; a message is only a wake-up that names a task and its generation. A message that
comes twice, late or never does not change the outcome. What is not listed here does not happen. *Work* and *active*
say what a move does to the tenant's ledger, in amounts of queued work and running attempts; the row and the ledger
change in one transaction.

| from | event | to | work | active | when |
| --- | --- | --- | --- | --- | --- |
`)
	for _, tr := range task.Transitions {
		from := "–"
		if tr.From != task.None {
			from = "`" + string(tr.From) + "`"
		}
		fmt.Fprintf(&b, "| %s | `%s` | `%s` | %s | %s | %s |\n", from, tr.Event, tr.To, signed(tr.Work), signed(tr.Active), tr.When)
	}
	b.WriteString("\n| state | is |\n| --- | --- |\n")
	for _, s := range task.States() {
		is := "neither live nor terminal: holds nothing, left by a replay or a cancel"
		switch {
		case s.Live():
			is = "live: holds a reservation"
		case s.Terminal():
			is = "terminal: never left"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", s, is)
	}
	return b.String()
}

func signed(n int) string {
	switch {
	case n > 0:
		return fmt.Sprintf("+%d", n)
	case n < 0:
		return fmt.Sprintf("−%d", -n)
	}
	return ""
}
