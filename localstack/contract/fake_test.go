package contract

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/apitest"
)

// fake is a small server that keeps the contract, in memory and without any admission worth the name. It exists to
// show that the suite passes on a right server and fails on wrong ones.
type fake struct {
	v       *apitest.Validator
	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever a task changes
	tasks   map[string]*fakeTask
	order   []string
	keys    map[string]string // tenant and idempotency key → id
	active  map[string]int
	work    map[string]events.Seconds
}

var fakeClasses = map[string]struct {
	lane     string
	p50, p95 events.Seconds
}{
	"mail.send": {"critical", 50, 200}, "agent.lint": {"standard", 1000, 4000},
	"report.export": {"standard", 3000, 12000}, "agent.migration": {"heavy", 30000, 120000},
}

var fakeDurations = map[string]int64{"critical": 1_800_000, "high": 7_200_000, "normal": 21_600_000, "low": 86_400_000}

func newFake(v *apitest.Validator) *fake {
	return &fake{v: v, changed: make(chan struct{}), tasks: map[string]*fakeTask{}, keys: map[string]string{},
		active: map[string]int{}, work: map[string]events.Seconds{"alpha": 0, "beta": 0}}
}

// refuse writes a problem.
func refuse(w http.ResponseWriter, code events.Code, detail string, change ...func(*events.Problem)) {
	p := events.NewProblem(code, detail)
	for _, c := range change {
		c(&p)
	}
	if p.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(p.RetryAfterSeconds, 10))
	}
	write(w, p.Status, events.MediaProblem, p)
}

func write(w http.ResponseWriter, status int, media string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func invalid(w http.ResponseWriter, faults []events.FieldError) {
	refuse(w, events.InvalidRequest, "See errors.", func(p *events.Problem) { p.Errors = faults })
}

// ServeHTTP routes by the path as sent.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if path == "/metrics" {
		f.metrics(w)
		return
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	tenant := map[string]string{"demo-alpha": "alpha", "demo-beta": "beta", "demo-admin": "*"}[key]
	if path != "/healthz" && (tenant == "" || !strings.EqualFold(scheme, "Bearer")) {
		refuse(w, events.Unauthenticated, "Send a key.")
		return
	}
	parts := strings.Split(path, "/")
	methods := map[string]http.HandlerFunc{}
	tenantOnly := true
	switch {
	case path == "/healthz":
		tenantOnly = false
		methods["GET"] = func(w http.ResponseWriter, _ *http.Request) {
			write(w, 200, events.MediaJSON, events.Health{Status: "ok", ConfigHash: strings.Repeat("0f", 32), Version: "0"})
		}
	case path == "/v1/lanes":
		tenantOnly = false
		methods["GET"] = f.lanes
	case path == "/v1/quotes":
		methods["POST"] = func(w http.ResponseWriter, r *http.Request) { f.submit(w, r, tenant, true) }
	case path == "/v1/tasks":
		methods["POST"] = func(w http.ResponseWriter, r *http.Request) { f.submit(w, r, tenant, false) }
		methods["GET"] = func(w http.ResponseWriter, r *http.Request) { f.list(w, r, tenant) }
	case len(parts) == 4 && strings.HasPrefix(path, "/v1/tasks/") && parts[3] != "":
		methods["GET"] = func(w http.ResponseWriter, r *http.Request) { f.get(w, r, tenant, parts[3]) }
	case len(parts) == 5 && strings.HasPrefix(path, "/v1/tasks/") && parts[4] == "cancel":
		methods["POST"] = func(w http.ResponseWriter, _ *http.Request) { f.cancel(w, tenant, parts[3]) }
	default:
		refuse(w, events.NotFound, "No such path.")
		return
	}
	h := methods[r.Method]
	switch {
	case h == nil:
		allow := []string{}
		for _, m := range []string{"GET", "POST"} {
			if methods[m] != nil {
				allow = append(allow, m)
			}
		}
		w.Header().Set("Allow", strings.Join(allow, ", "))
		refuse(w, events.MethodNotAllowed, "See Allow.")
	case tenantOnly && tenant == "*":
		refuse(w, events.Forbidden, "Operators have no tasks.")
	default:
		h(w, r)
	}
}

func (f *fake) lanes(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list events.LaneList
	for _, name := range []string{"critical", "heavy", "retry", "standard"} {
		l := events.Lane{Lane: name, Slots: 4}
		for _, t := range f.tasks {
			switch {
			case t.Lane != name:
			case t.State == events.StateRunning:
				l.Running++
			case t.State.Live():
				l.Waiting++
				l.QueuedWork += t.amount
			}
		}
		list.Items = append(list.Items, l)
	}
	write(w, 200, events.MediaJSON, list)
}

func (f *fake) metrics(w http.ResponseWriter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = fmt.Fprintf(w, "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 1.5e+07\n")
	for tenant, work := range f.work {
		_, _ = fmt.Fprintf(w, "lanekeeper_ledger_work_ms{tenant=%q} %d\nlanekeeper_ledger_active{tenant=%q} %d\n", tenant, int64(work), tenant, f.active[tenant])
	}
}

// submission is a request's body as the fake needs it.
type submission struct {
	Class    string
	Priority string
	Payload  struct {
		SleepMS   int64  `json:"sleep_ms"`
		Fail      string `json:"fail"`
		FailTimes *int   `json:"fail_times"`
	}
	Deadline *float64 `json:"deadline_seconds"`
	Hints    map[string]int64
}

// read decodes and judges a body; it gives false when it has answered already.
func (f *fake) read(w http.ResponseWriter, r *http.Request, quote bool) (s submission, canonical string, ok bool) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != events.MediaJSON {
		refuse(w, events.UnsupportedMediaType, "Send JSON.")
		return s, "", false
	}
	if len(body) > 1<<20 {
		refuse(w, events.PayloadTooLarge, "The body is too large.")
		return s, "", false
	}
	faults, err := f.v.BodyFaults("POST", "/v1/tasks", body)
	if err != nil {
		panic(err)
	}
	var raw map[string]json.RawMessage
	_ = json.Unmarshal(body, &raw)
	var hints map[string]int64
	if json.Unmarshal(raw["hints"], &hints) == nil && hints["rows"] > 5_000_000 && len(faults) == 0 {
		faults = append(faults, events.FieldError{Pointer: "/hints/rows", Detail: "at most 5000000"})
	}
	for name := range hints { // the schema library does not say where a wrong name stands
		if n := len(name); n < 1 || n > 64 || strings.ContainsFunc(name, unicode.IsControl) {
			faults = append(faults, events.FieldError{Pointer: "/hints", Detail: "has a wrong name"})
		}
	}
	if keys := r.Header.Values("Idempotency-Key"); len(keys) > 0 && !quote {
		bad := func(c rune) bool { return c < ' ' || c > '~' }
		if k := keys[0]; k == "" || len(k) > 255 || strings.ContainsFunc(k, bad) {
			faults = append(faults, events.FieldError{Pointer: "header:Idempotency-Key", Detail: "1 to 255 printable ASCII characters"})
		}
	}
	if len(faults) > 0 {
		invalid(w, faults)
		return s, "", false
	}
	if len(raw["payload"]) > 256<<10 {
		refuse(w, events.PayloadTooLarge, "The payload is too large.")
		return s, "", false
	}
	var value any
	if json.Unmarshal(body, &value) != nil || json.Unmarshal(body, &s) != nil {
		invalid(w, []events.FieldError{{Pointer: "", Detail: "is not understood"}})
		return s, "", false
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return s, string(text), true
}

// decide gives the decision of an always empty lane.
func (f *fake) decide(s submission, tenant string) (events.Decision, string) {
	class := fakeClasses[s.Class]
	bucket, lane := "default", class.lane
	if s.Class == "report.export" {
		bucket = "small"
		if s.Hints["rows"] >= 100_000 {
			bucket, lane, class.p95 = "large", "heavy", 240_000
		}
	}
	deadline := events.Seconds(fakeDurations[s.Priority])
	if s.Deadline != nil {
		deadline = events.Seconds(math.Round(*s.Deadline * 1000))
	}
	d := events.Decision{Code: events.Accept, Lane: lane, Estimate: class.p95 / 2, ServiceP95: class.p95, Margin: 100, Deadline: deadline,
		Slots: 4, TenantQueuedWork: f.work[tenant], TenantLimit: 1_000_000}
	if d.ServiceP95+d.Margin >= deadline {
		d.Code, d.BindingLimit = events.DeadlineInfeasible, "service_time"
	}
	return d, bucket
}

// wait blocks until a task changes or the request or the time is over. The lock is held before and after.
func (f *fake) wait(r *http.Request, until <-chan time.Time) bool {
	changed := f.changed
	f.mu.Unlock()
	defer f.mu.Lock()
	select {
	case <-changed:
		return true
	case <-until:
		return false
	case <-r.Context().Done():
		return false
	}
}
