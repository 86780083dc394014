package kill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
)

// client calls the stack, whatever becomes of its process meanwhile.
type client struct {
	*process
	http http.Client
}

// callWithin is how long a call may be repeated.
const callWithin = 30 * time.Second

var errBroken = errors.New("the connection broke: nobody knows whether the call was done")

// once makes a call of a tenant. errBroken says that the process may have died over it.
func (c *client) once(tenant, method, path string, header http.Header, body []byte, into any) (int, http.Header, error) {
	url, _ := c.at()
	req, err := http.NewRequest(method, url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	req.Header.Set("Authorization", "Bearer "+keyOf(tenant))
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, errBroken
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, errBroken
	}
	if resp.StatusCode < 300 && into != nil {
		if err := json.Unmarshal(got, into); err != nil {
			return 0, nil, fmt.Errorf("%s %s: %w: %s", method, path, err, got)
		}
	}
	return resp.StatusCode, resp.Header, nil
}

// call repeats a call that can be repeated until it is answered.
func (c *client) call(tenant, method, path string, header http.Header, body []byte, into any) (int, http.Header, error) {
	for limit := time.Now().Add(callWithin); ; time.Sleep(10 * time.Millisecond) {
		status, h, err := c.once(tenant, method, path, header, body, into)
		if again := errors.Is(err, errBroken) || status == http.StatusServiceUnavailable; !again || time.Now().After(limit) {
			return status, h, err
		}
	}
}

// request is what one of the thousand asks for.
type request struct {
	tenant, key string // key "": without Idempotency-Key
	body        []byte
	cancel      bool // soon after it was accepted
}

func requests(n int) []request {
	classes := []string{"plain", "flaky", "plain", "wrong", "plain", "steps", "plain", "flaky", "plain", "plain"}
	out := make([]request, n)
	for i := range out {
		r := request{tenant: tenants[i%len(tenants)], cancel: i%13 == 0,
			body: fmt.Appendf(nil, `{"class":%q,"payload":%d}`, classes[i%len(classes)], i)}
		if i/2%2 == 0 {
			r.key = fmt.Sprintf("order-%d", i)
		}
		out[i] = r
	}
	return out
}

// accepted is a task that its client was told of.
type accepted struct {
	request
	id    string
	kills int // before it was told
}

// ledger is what clients know.
type ledger struct {
	mu     sync.Mutex
	told   []accepted
	unsure int                    // submissions without a key that nobody answered
	over   map[string]events.Task // as they were first seen to be over
	faults []error
}

func (l *ledger) fault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, err)
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.told)
}

func (l *ledger) tasks() []accepted {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]accepted(nil), l.told...)
}

// submit gets one request accepted. With a key it is repeated as it is; without,
// a broken connection leaves a task behind or not, and the next one is another.
func (c *client) submit(l *ledger, r request) error {
	var t events.Task
	var header http.Header
	if r.key != "" {
		header = http.Header{"Idempotency-Key": {r.key}}
	}
	for limit := time.Now().Add(callWithin); ; time.Sleep(10 * time.Millisecond) {
		status, _, err := c.once(r.tenant, "POST", "/v1/tasks", header, r.body, &t)
		switch {
		case err == nil && status == http.StatusAccepted:
			_, kills := c.at()
			l.mu.Lock()
			l.told = append(l.told, accepted{r, t.ID, kills})
			l.mu.Unlock()
			if r.cancel {
				return c.cancel(r.tenant, t.ID)
			}
			return nil
		case time.Now().After(limit):
			return fmt.Errorf("submit: %d, %w", status, err)
		case errors.Is(err, errBroken) && r.key == "":
			l.mu.Lock()
			l.unsure++
			l.mu.Unlock()
		case errors.Is(err, errBroken), err == nil && status == http.StatusServiceUnavailable:
		default:
			return fmt.Errorf("submit: %d, %w", status, err)
		}
	}
}

func (c *client) cancel(tenant, id string) error {
	status, _, err := c.call(tenant, "POST", "/v1/tasks/"+id+"/cancel", nil, nil, nil)
	if err == nil && status != http.StatusAccepted && status != http.StatusOK && status != http.StatusConflict {
		err = fmt.Errorf("cancel: %d", status)
	}
	return err
}

// repeat asks again for a task that was accepted before: it must be the same one.
func (c *client) repeat(a accepted) error {
	var t events.Task
	status, h, err := c.call(a.tenant, "POST", "/v1/tasks", http.Header{"Idempotency-Key": {a.key}}, a.body, &t)
	if err == nil && (status != http.StatusAccepted || t.ID != a.id || h.Get("Idempotency-Replayed") != "true") {
		err = fmt.Errorf("%s repeated gave %d and task %s (replayed %q), it was %s", a.key, status, t.ID, h.Get("Idempotency-Replayed"), a.id)
	}
	return err
}

// list is all tasks of all tenants. What is over must be as it was when it was
// first seen to be.
func (c *client) list(l *ledger) (all []events.Task, err error) {
	for _, tenant := range tenants {
		for cursor, more := "", true; more; {
			var page struct {
				Items      []events.Task `json:"items"`
				NextCursor *string       `json:"next_cursor"`
			}
			status, _, err := c.call(tenant, "GET", "/v1/tasks?limit=100"+cursor, nil, nil, &page)
			if err != nil || status != http.StatusOK {
				return nil, fmt.Errorf("list: %d, %w", status, err)
			}
			all = append(all, page.Items...)
			if more = page.NextCursor != nil; more {
				cursor = "&cursor=" + *page.NextCursor
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range all {
		was, seen := l.over[t.ID]
		switch {
		case seen && (t.State != was.State || t.Attempt != was.Attempt || t.FinishedAt != was.FinishedAt):
			l.faults = append(l.faults, fmt.Errorf("%s was over (%s, attempt %d), then it was %s, attempt %d", t.ID, was.State, was.Attempt, t.State, t.Attempt))
		case !seen && t.State.Terminal():
			l.over[t.ID] = t
		}
	}
	return all, nil
}

// metric is a counter of /metrics, as its text; "" when nothing was counted.
func (c *client) metric(t *testing.T, name string) string {
	t.Helper()
	url, _ := c.at()
	resp, err := c.http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			return f[1]
		}
	}
	return ""
}
