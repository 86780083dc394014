package policyfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const demo = "../../../localstack/lanekeeper.yaml"

// minimal has what is required and nothing else, so that every line number in the cases below is easy to find.
const minimal = `version: 1
lanes:
  main:
    owner: team
    slo: {queue_wait_p95: 5s, oldest_age: 10s}
    workers: {max_concurrency: 4}
    retry: {max_attempts: 3}
    dlq: {max_receives: 5}
    brakes: []
  again:
    role: retry
    share: 0.1
    owner: team
    slo: {queue_wait_p95: 5s, oldest_age: 10s}
    retry: {max_attempts: 3}
    dlq: {max_receives: 5}
    brakes: []
classes:
  mail.send:
    lane: main
    prior: {p50: 1s, p95: 2s}
    cap: 10s
tiers:
  basic: {max_queued_work: 2m, max_active: 2}
`

func TestGoodFilesAreAccepted(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"minimal": minimal, "full": read(t, "testdata/full.yaml"), "demo": read(t, demo),
		"bom and crlf":                  "\ufeff" + strings.ReplaceAll(minimal, "\n", "\r\n"),
		"start and end of the document": "# a comment\n---\n" + minimal + "...\n",
	} {
		if _, err := Parse("x.yaml", []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// edit is old → new in the minimal file; an empty old appends.
type edit struct{ old, new string }

var badFiles = []struct {
	name  string
	edits []edit
	want  string // the faults, one a line, without the file's name
}{
	{"unknown keys, one near a known", []edit{{"    owner: team\n    slo: {queue_wait_p95: 5s, oldest_age: 10s}\n    workers", "    owner: team\n    slo: {queue_wait_p95: 5s, oldest_age: 10s, x: 1}\n    wrokers: {}\n    workers"}}, `
5:48: lanes.main.slo.x: unknown key
6:5: lanes.main.wrokers: unknown key; workers is meant?`},
	{"a lane without anything", []edit{{"  again:", "  empty: {}\n  again:"}}, `
10:3: lanes.empty.brakes: is missing
10:3: lanes.empty.dlq: is missing
10:3: lanes.empty.owner: is missing
10:3: lanes.empty.retry: is missing
10:3: lanes.empty.slo: is missing
10:3: lanes.empty.workers: is missing`},
	{"duplicate keys", []edit{{"    brakes: []\n  again", "    brakes: []\n    owner: other\n  again"}, {"", "version: 1\n"}}, `
10:5: lanes.main.owner: is there twice, first in line 4
26:1: version: is there twice, first in line 1`},
	{"wrong types", []edit{{"owner: team", "owner: 5"}, {"{max_concurrency: 4}", "{max_concurrency: \"4\"}"}, {"{max_attempts: 3}", "[3]"}, {"cap: 10s", "cap: 10"}, {"share: 0.1", "share: yes"}, {"brakes: []", "brakes: none"}}, `
4:12: lanes.main.owner: must be text, is a number (text that looks like one stands in "quotes")
6:32: lanes.main.workers.max_concurrency: must be a whole number, is text
7:5: lanes.main.retry: must be a mapping, is a list
9:5: lanes.main.brakes: must be a list, is text
12:12: lanes.again.share: must be a number, is text
22:10: classes["mail.send"].cap: must be a duration such as 30s, is a number`},
	{"empty values", []edit{{"owner: team", "owner:"}, {"workers: {max_concurrency: 4}", "workers:"}}, `
4:11: lanes.main.owner: must be text, is nothing
6:5: lanes.main.workers: must be a mapping, is nothing`},
	{"durations", []edit{{"queue_wait_p95: 5s, oldest_age: 10s", "queue_wait_p95: -5s, oldest_age: 10 s"}, {"p50: 1s, p95: 2s", "p50: 0s, p95: 1.0001s"}, {"cap: 10s", "cap: 9999999999h"}}, `
5:27: lanes.main.slo.queue_wait_p95: must not be negative
5:44: lanes.main.slo.oldest_age: must be a duration such as 500ms, 30s, 1m30s or 336h
21:18: classes["mail.send"].prior.p50: must be 1ms to 336h, is 0s
21:27: classes["mail.send"].prior.p95: must be whole milliseconds
22:10: classes["mail.send"].cap: is too long a duration`},
	{"ranges", []edit{{"{max_concurrency: 4}", "{max_concurrency: 1}"}, {"dlq: {max_receives: 5}", "dlq: {max_receives: 4}"}, {"share: 0.1", "share: 0.3"}, {"    brakes: []\n  again", "    brakes: []\n    attempt_timeout: 14m1s\n    batch: {size: 11}\n  again"}, {"version: 1", "version: 2"}}, `
1:10: version: must be 1, is 2
6:32: lanes.main.workers.max_concurrency: must be 2 to 1000, is 1
8:25: lanes.main.dlq.max_receives: must be 5 to 1000, is 4
10:22: lanes.main.attempt_timeout: must be 100ms to 14m, is 14m1s
11:19: lanes.main.batch.size: must be 1 to 10, is 11
14:12: lanes.again.share: must be 0.1 to 0.2, is 0.3`},
	{"numbers that are none", []edit{{"{max_concurrency: 4}", "{max_concurrency: 99999999999999999999999}"}, {"share: 0.1", "share: .nan"}, {"max_active: 2", "max_active: 0x10, rate: 1e400, burst: 1_0, weight: -.inf"}}, `
6:32: lanes.main.workers.max_concurrency: must be a whole number in plain decimal digits and of ordinary size
12:12: lanes.again.share: must be a finite number
24:44: tiers.basic.max_active: must be a whole number in plain decimal digits
24:56: tiers.basic.rate: must be a number in plain decimal digits and of ordinary size
24:70: tiers.basic.burst: must be a whole number in plain decimal digits
24:83: tiers.basic.weight: must be a finite number`},
	{"concurrency above the reserve", []edit{{"{max_concurrency: 4}", "{max_concurrency: 4, reserved: 3}"}}, `
6:32: lanes.main.workers.max_concurrency: must be at most reserved (3), is 4: throttled deliveries would go to the DLQ unrun`},
	{"no worker cap", []edit{{"{max_concurrency: 4}", "{reserved: 4}"}}, `
6:5: lanes.main.workers.max_concurrency: is missing`},
	{"no retry lane", []edit{{"    role: retry\n    share: 0.1\n", "    workers: {max_concurrency: 2}\n"}}, `
2:1: lanes: one lane must have the role retry`},
	{"two retry lanes", []edit{{"    owner: team\n    slo: {queue_wait_p95: 5s, oldest_age: 10s}\n    workers: {max_concurrency: 4}", "    role: retry\n    owner: team\n    slo: {queue_wait_p95: 5s, oldest_age: 10s}\n    workers: {max_concurrency: 4}"}}, `
3:3: lanes.main.share: is missing; the retry lane needs a share of the other lanes' slots, 0.1 to 0.2
4:11: lanes.main.role: only one lane can have the role retry, and again has it
2:1: lanes: there must be a lane beside the retry lane
7:32: lanes.main.workers.max_concurrency: is refused in the retry lane, whose slots are its share of the other lanes'
21:11: classes["mail.send"].lane: must not be the retry lane: only repeated attempts run there`},
	{"the retry lane's own rules", []edit{{"    share: 0.1\n", "    share: 0.1\n    workers: {max_concurrency: 2, reserved: 2}\n    batch: {size: 2}\n    attempt_timeout: 29s\n"}, {"lane: main", "lane: again"}}, `
13:32: lanes.again.workers.max_concurrency: is refused in the retry lane, whose slots are its share of the other lanes'
14:19: lanes.again.batch.size: must be 1 in the retry lane
15:22: lanes.again.attempt_timeout: must be at least that of lane main (30s), whose attempts it repeats, is 29s
23:11: classes["mail.send"].lane: must not be the retry lane: only repeated attempts run there`},
	{"too small a reserve for the share", []edit{{"{max_concurrency: 4}", "{max_concurrency: 36}"}, {"    share: 0.1\n", "    share: 0.1\n    workers: {reserved: 3}\n"}}, `
13:25: lanes.again.workers.reserved: must be at least the lane's share of the other lanes' slots (4), is 3`},
	{"a share outside the retry lane", []edit{{"    workers: {max", "    share: 0.1\n    workers: {max"}}, `
6:12: lanes.main.share: is refused outside the retry lane`},
	{"batches of long tasks", []edit{{"    workers: {max", "    batch: {size: 2}\n    ceiling: {p95: 1s}\n    workers: {max"}}, `
6:19: lanes.main.batch.size: must be 1 unless ceiling.p95 is under 1s: the items of a batch run one after another`},
	{"references", []edit{{"lane: main", "lane: mian\n    depends_on: {db: {calls: 1}}"}, {"", "tenants: {alpha: {tier: bsaic, keys: [demo-alpha]}}\npriorities: {urgent: {max_wait: 1s}}\n"}, {"    brakes: []\n  again", "    brakes: [{when: dependency.db.error_share, over: 0.5, factor: 0.5}]\n  again"}}, `
9:21: lanes.main.brakes[0].when: there is no dependency "db"
20:11: classes["mail.send"].lane: there is no lane "mian"
21:18: classes["mail.send"].depends_on.db: there is no dependency "db"
26:25: tenants.alpha.tier: there is no tier "bsaic"
27:14: priorities.urgent: unknown key; here only critical, high, normal, low are`},
	{"names", []edit{{"  again:", "  Again:"}, {"mail.send:", "mail..send:"}, {"basic:", "a_b:"}, {"", "operators: {keys: [short, \"with space\", demo-admin, demo-admin]}\n"}}, `
10:3: lanes.Again: its name must be a lower-case letter, then at most 31 lower-case letters, digits or hyphens
19:3: classes["mail..send"]: its name must be lower-case words of letters, digits, hyphens and underscores joined by dots, at most 64 characters, the first a letter
24:3: tiers.a_b: its name must be a lower-case letter, then at most 31 lower-case letters, digits or hyphens
25:20: operators.keys[0]: must be 8 to 128 printable ASCII characters without space, is "short"
25:27: operators.keys[1]: must be 8 to 128 printable ASCII characters without space, is "with space"
25:53: operators.keys[3]: this key is already that of the operators`},
	{"keys that are no text", []edit{{"  again:", "  1: {}\n  true: {}\n  again:"}}, `
10:3: lanes: a key must be plain text, "1" is not
11:3: lanes: a key must be plain text, "true" is not`},
	{"sizes", []edit{{"    cap: 10s", "    cap: 10s\n    sizes:\n      by: rows\n      buckets:\n      - {name: a, from: 1}\n      - {name: a, from: 5, lane: again}\n      - name: c\n        from: 5\n        cap: 1s\n      - {name: d, from: 6, prior: {p50: 20s, p95: 30s}}"}}, `
26:25: classes["mail.send"].sizes.buckets[0].from: must be 0 in the first bucket, is 1
27:16: classes["mail.send"].sizes.buckets[1].name: bucket a is there already
27:34: classes["mail.send"].sizes.buckets[1].lane: must not be the retry lane: only repeated attempts run there
29:15: classes["mail.send"].sizes.buckets[2].from: must be above the bucket before (5), is 5
30:14: classes["mail.send"].sizes.buckets[2].cap: must be at least the class's prior p95 (2s), is 1s
31:51: classes["mail.send"].sizes.buckets[3].prior.p95: must be at most the cap (10s), is 30s`},
	{"costs and priorities", []edit{{"p50: 1s, p95: 2s", "p50: 3s, p95: 2s"}, {"cap: 10s", "cap: 1s\n    priority: {default: high, max: low}\n    target: {builtin: sleep, http: \"https://x.example\"}"}, {"", "priorities: {high: {max_wait: 3h, max_duration: 2h}, low: {max_duration: 12h}}\ntasks: {max_deadline: 6h}\n"}}, `
21:18: classes["mail.send"].prior.p50: must be at most p95 (2s), is 3s
21:27: classes["mail.send"].prior.p95: must be at most the cap (1s), is 2s
23:36: classes["mail.send"].priority.max: must be at least the default (high), is low
24:5: classes["mail.send"].target: must have exactly one of builtin, lambda and http, has 2
27:31: priorities.high.max_wait: must be at most max_duration (2h), is 3h
27:74: priorities.low.max_duration: must be at most tasks.max_deadline (6h), is 12h`},
	{"brakes and dependencies", []edit{{"    brakes: []\n  again", "    brakes:\n    - {when: dependency.db.latency_p95, over: 0.5, factor: 0.5}\n    - {when: dependency.db.error_share, over: 2s, factor: 2}\n    - {when: dependency.db.nothing, factor: 0}\n    - {when: dependency.db.signal, over: 1.5, for: 0s}\n  again"}, {"", "dependencies: {db: {concurrency: 0, lanes: {main: {reserve: 0.8, max: 0.5}, again: {reserve: 0.8}, none: {}}}}\n"}}, `
10:47: lanes.main.brakes[0].over: must be a duration above 0s, as latency_p95 is one
11:47: lanes.main.brakes[1].over: must be a number from 0 to 1, as error_share is a share
11:59: lanes.main.brakes[1].factor: must be 0 to 1, is 2
12:14: lanes.main.brakes[2].when: must be dependency.NAME.METRIC, METRIC being error_share, share_429, latency_p95 or signal, is "dependency.db.nothing"
13:7: lanes.main.brakes[3].factor: is missing
13:42: lanes.main.brakes[3].over: must be 0 to 1, is 1.5
13:52: lanes.main.brakes[3].for: must be 1s to 1h, is 0s
29:34: dependencies.db.concurrency: must be 1 to 100000, is 0
29:37: dependencies.db.lanes: the lanes' reserves must add up to 1 at most, add up to 1.6
29:61: dependencies.db.lanes.main.reserve: must be at most max (0.5), is 0.8
29:100: dependencies.db.lanes.none: there is no lane "none"`},
	{"a key of two tenants", []edit{{"", "tenants: {a: {tier: basic, keys: [same-same]}, b: {tier: basic, keys: [same-same]}}\n"}}, `
25:72: tenants.b.keys[0]: this key is already that of tenant a`},
	{"anchors, aliases, tags, merge keys", []edit{{"    owner: team\n    slo: {queue_wait_p95: 5s, oldest_age: 10s}\n    workers", "    owner: &o team\n    slo: {queue_wait_p95: 5s, oldest_age: 10s}\n    workers"}, {"share: 0.1\n    owner: team", "share: 0.1\n    owner: *o"}, {"cap: 10s", "cap: !!str 10s\n    <<: {late: run}"}}, `
4:12: lanes.main.owner: anchors and aliases are not accepted
13:12: lanes.again.owner: anchors and aliases are not accepted
22:10: classes["mail.send"].cap: tags are not accepted
23:5: classes["mail.send"]: a key must be plain text, "<<" is not`},
	{"empty maps", []edit{{"  basic: {max_queued_work: 2m, max_active: 2}", "  {}"}}, `
23:1: tiers: must not be empty`},
}

func TestBadFilesReportEveryFaultWithItsPlace(t *testing.T) {
	t.Parallel()
	for _, c := range badFiles {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := minimal
			for _, e := range c.edits {
				if e.old == "" {
					text += e.new
					continue
				}
				if !strings.Contains(text, e.old) {
					t.Fatalf("the file has no %q", e.old)
				}
				text = strings.Replace(text, e.old, e.new, 1)
			}
			expectFaults(t, text, c.want)
		})
	}
}

func TestTextThatIsNoConfiguration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "1:1: the file is empty"},
		"only comments":     {"# nothing\n---\n", "1:1: the file is empty"},
		"a list":            {"- a\n", "1:1: must be a mapping, is a list"},
		"a word":            {"hello\n", "1:1: must be a mapping, is text"},
		"nothing":           {"~\n", "1:1: must be a mapping, is nothing"},
		"tab":               {"version: 1\n\tlanes: {}\n", "2:1: found character TAB that cannot start any token"},
		"unclosed":          {"version: [1,\n", "1:10: sequence end token ']' not found"},
		"two documents":     {"version: 1\n---\nversion: 1\n", "3:8: a second document is not accepted"},
		"directive":         {"%YAML 1.1\n---\nversion: 1\n", "1:1: directives are not accepted"},
		"not UTF-8":         {"version: 1\n# caf\xe9\n", "2:6: the file is not UTF-8"},
		"NUL":               {"version: \x00", "1:10: control character U+0000 is not accepted"},
		"too large":         {strings.Repeat("#", MaxBytes+1), "the file is larger than 1048576 bytes"},
		"deep brackets":     {"a: " + strings.Repeat("[", 200000), "1:36: is nested more than 32 deep"},
		"deep entries":      {strings.Repeat("- ", 200000), "1:65: is nested more than 32 deep"},
		"deep indentation":  {"a:\n" + strings.Repeat(" ", 200) + "b: 1\n", "2:201: is indented too deeply"},
		"deep block of old": {"? " + strings.Repeat("? ", 100), "1:65: is nested more than 32 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectFaults(t, c.text, c.want)
		})
	}
}

func expectFaults(t *testing.T, text, want string) {
	t.Helper()
	c, err := Parse("x", []byte(text))
	if err == nil || c != nil {
		t.Fatalf("accepted, wanted:\n%s", want)
	}
	var faults *policy.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("error is %T", err)
	}
	got := strings.Split(strings.TrimPrefix(strings.ReplaceAll("\n"+err.Error(), "\nx:", "\n"), "\n"), "\n")
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], " ")
	}
	wanted := strings.Split(strings.TrimSpace(want), "\n")
	if strings.Join(sorted(got), "\n") != strings.Join(sorted(wanted), "\n") {
		t.Errorf("got:\n%s\nwanted:\n%s", strings.Join(got, "\n"), strings.Join(wanted, "\n"))
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	if _, err := Load(demo); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, MaxBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	var faults *policy.Faults
	if _, err := Load(large); !errors.As(err, &faults) {
		t.Errorf("a large file: %v", err)
	}
}
