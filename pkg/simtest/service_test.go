package simtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// serviceMutant is a check of a service that is taken out of its source.
type serviceMutant struct{ file, old, with, why string }

// serviceMutants are the checks on which promises rest that no condition of a
// write repeats.
var serviceMutants = []serviceMutant{
	{"execute/execute.go", " || t.Gen != m.Gen || t.AtLane != lane {", " {", "a message of another lane and generation is claimed"},
	{"execute/execute.go", "if t.TooLate(s.Clock().UnixMilli()) {", "if false {", "a message starts what cannot finish in time"},
	{"execute/execute.go", "now.LeaseToken == l.Token && now.State == task.Running", "now.State == task.Running", "another's claim is taken for one's own"},
	{"execute/attempt.go", "if errors.Is(out.cause, worker.ErrLeaseLost) {", "if true {", "an attempt's end is not written"},
	{"execute/finish.go", "const laneTries = 4", "const laneTries = 1", "a continued task waits uncounted"},
	{"execute/next.go", "if met, ok = s.writeLane(ctx, taskop.AdoptOpen(lane.Name, s.open(next.Task)), lane.Name); ok {",
		"if met, ok = s.writeLane(ctx, taskop.AdoptOpen(lane.Name, s.open(next.Task)), lane.Name); true {", "a hand-over is uncounted twice"},
	{"execute/next.go", "if next.ID != ended.ID {", "if true {", "a task that goes on loses its slot"},
	{"aggregate/check.go", " && !r.doubt[l.Name] {", " {", "an item that counts too little is believed"},
	{"aggregate/check.go", "case o.Running && ended(t, r.Clock().UnixMilli()) < settleMS:", "case false:", "a slot that is being handed over is given away"},
	{"aggregate/check.go", "if nowMS-o.SinceMS >= settleMS {", "if nowMS >= o.SinceMS {", "an entry is held against its row at once"},
	{"aggregate/due.go", "if t.State != task.Running && t.TooLate(nowMS) {", "if false {", "nothing expires"},
	{"redrive/redrive.go", "if t.State != task.Queued || t.Gen != m.Gen {", "if t.State != task.Queued {", "a dead letter of an earlier generation counts"},
	{"redrive/redrive.go", "if d.SentMS <= t.DeadMS {", "if false {", "a dead letter counts again and again"},
	{"redrive/redrive.go", "if t.Dead+1 < quarantineAt {", "if true {", "what cannot be delivered is never given up"},
	{"redrive/redrive.go", "return nil // kept before", "return err", "an unreadable body comes again for ever"},
	{"redrive/redrive.go", "failed = append(failed, d.MessageID)", "", "a dead letter that the store failed on is lost"},
	{"intake/submit.go", "if t.RequestHash != a.p.RequestHash {", "if false {", "another request gets the task of the key"},
	{"intake/submit.go", "if t, err = a.keep(ctx, t); err != nil {", "if err != nil {", "a twin is told of a task that is withdrawn"},
	{"intake/submit.go", " && taskop.Cut(met) == guard.Cut {", " {", "an earlier try's slot is used although the lane was paused since"},
	{"intake/submit.go", " && !halted && !h.held", " && !h.held", "a task of a halted class gets a slot"},
	{"intake/auth.go", "s.creds.put(hash, p, now.Add(credentialTTL), now)", "s.creds.put(hash, p, now.Add(time.Hour), now)", "a withdrawn key works for long"},
	{"execute/next.go", "if err != nil || state.Paused {", "if err != nil {", "a paused lane's slot is handed over"},
	{"execute/next.go", "t.AtLane != lane.Name || lane.Halts(t.Class) {", "t.AtLane != lane.Name {", "a halted class's task is taken by hand-over"},
	{"aggregate/release.go", "if l.Halts(t.Class) {", "if false {", "a halted class's tasks are released"},
	{"aggregate/circuit.go", "bad = bad || t.Error != nil && strings.HasPrefix(t.Error.Signature, n.Digits)", "", "a canary that failed for good is let pass"},
	{"aggregate/circuit.go", "if nowMS < n.NextMS {", "if false {", "canaries follow each other without a pause"},
	{"aggregate/replay.go", "if t == nil || t.ReplayID == rep.ID {", "if t == nil {", "a replay takes a task again that has failed again"},
	{"aggregate/replay.go", " && rep.Admitted+rep.Refused < what.Limit {", " {", "a replay does not keep its limit"},
	{"aggregate/replay.go", "		paced += interval\n", "", "a replay does not keep its rate"},
	{"aggregate/drift.go", "		return nil // the index was behind, not the ledger", "		n = n", "a ledger is repaired that is right"},
	{"operate/operate.go", "if !noted {", "if !noted && false {", "a pause is not in the audit"},
	{"operate/replay.go", "if req.DryRun {", "if false {", "a dry run starts a replay"},
	{"operate/quarantine.go", "(f.Tenant == \"\" || f.Tenant == e.Tenant)", "true", "a replay takes tasks of other tenants"},
	{"operate/quarantine.go", "if s.nowMS-e.AtMS < int64(s.filter.MinAge) {", "if false {", "a replay takes what is too young, and what came after it"},
	{"operate/quarantine.go", "t.State != task.Quarantined || t.QuarantinedMS != e.AtMS {", "false {", "a replay takes what has left the quarantine"},
	{"recovery/recovery.go", "writes = append(writes, taskop.VoidLease(t, nowMS))", "", "what a killed process left waits for its leases"},
}

// TestServiceMutants takes one check out of the services at a time; the
// directed cases or histories must notice. Without -mutants it only makes sure that
// the checks are still where they were.
func TestServiceMutants(t *testing.T) {
	dead, tried, at := 0, 0, time.Now()
	for _, m := range slices.Concat(serviceMutants, orderMutants) {
		path, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(m.file)))
		if err != nil {
			t.Fatal(err)
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.old); n != 1 {
			t.Errorf("%s: found %d times: %s", m.file, n, m.old)
			continue
		}
		if !*mutantsFlag || !strings.Contains(m.why, *mutantFlag) {
			continue
		}
		tried++
		if out, noticed := withSource(t, path, strings.Replace(string(source), m.old, m.with, 1)); noticed {
			dead++
		} else {
			t.Errorf("survivor: %s: %s\n%s", m.file, m.why, out)
		}
		if time.Since(at) > 10*time.Second {
			at = time.Now()
			fmt.Printf("mutants of services: … %d of %d killed\n", dead, tried)
		}
	}
	if *mutantsFlag {
		fmt.Printf("mutants of services: %d of %d killed\n", dead, tried)
	}
}

// withSource runs cases and some histories with a file replaced, and says
// whether they failed.
func withSource(t *testing.T, path, text string) (out string, failed bool) {
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{changed: []byte(text), overlay: list} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "simtest")
	if out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Errorf("%s does not compile with the mutant: %v\n%s", path, err, out)
		return "", true
	}
	// The cases first, which are quick and catch most; one failure is enough.
	for _, run := range []string{"^TestCases$", "^TestHistories$"} {
		b, err := exec.Command(binary, "-test.run", run, "-test.failfast", "-seeds", "400", "-hasty").CombinedOutput()
		if out = string(b); err != nil {
			return out, true
		}
	}
	return out, false
}
