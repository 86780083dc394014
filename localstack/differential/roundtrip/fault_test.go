package roundtrip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
)

// Fault is what happens to one round trip.
type Fault int

// The faults. Those whose names say so let the server do its work first.
const (
	None         Fault = iota
	NotSent            // the connection cannot be made
	Reset              // the connection breaks before the request is out
	AnswerLost         // applied; the connection breaks before the answer
	BrokenOff          // applied; the connection breaks in the middle of the answer
	Truncated          // applied; the answer ends early and says that it is whole
	Garbled            // applied; the answer is not what a server of AWS writes
	TooSlow            // applied; the answer comes after the caller's patience
	Stalled            // not applied, and no answer
	Fails              // 500 with AWS's error, without effect
	Busy               // 503 without a body of AWS's, without effect
	FailsLate          // applied; 500 with AWS's error
	BusyLate           // applied; 503 with the page of some proxy
	Throttled          // 400 ThrottlingException, or the queue's name for it
	OverCapacity       // 400 ProvisionedThroughputExceededException
	Collides           // 400: others' transactions are in the way
	Twice              // the same request arrives a second time, later
	DiesBefore         // the process is gone before the request
	DiesAfter          // applied; the process is gone
	faults
)

var faultNames = [...]string{"none", "not sent", "reset", "answer lost", "broken off", "truncated", "garbled", "too slow", "stalled", "500", "503", "500 after all",
	"503 after all", "throttled", "over capacity", "collides", "twice", "dies before", "dies after"}

func (f Fault) String() string { return faultNames[f] }

// longest is how long a stalled round trip lasts where the caller sets no limit.
const longest = 5 * time.Second

// Net is the network between processes and the server.
type Net struct {
	inner http.RoundTripper
	share float64 // of round trips that go wrong

	mu     sync.Mutex
	rng    *rand.Rand
	over   bool
	counts [faults]int
	trips  int
	late   sync.WaitGroup // requests that arrive a second time
}

// NewNet makes a network where that share of round trips goes wrong.
func NewNet(seed uint64, share float64) *Net {
	return &Net{inner: &http.Transport{MaxIdleConnsPerHost: 64}, share: share, rng: rand.New(rand.NewPCG(seed, 1))}
}

// Heal ends the faults, and waits for what still has to arrive.
func (n *Net) Heal() {
	n.mu.Lock()
	n.over = true
	n.mu.Unlock()
	n.late.Wait()
}

// String tells what happened, and to how many round trips.
func (n *Net) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := fmt.Sprintf("%d round trips", n.trips)
	for f, c := range n.counts {
		if Fault(f) != None {
			out += fmt.Sprintf(", %v %d", Fault(f), c)
		}
	}
	return out
}

// Met says whether every fault has happened.
func (n *Net) Met() (missing []Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for f, c := range n.counts {
		if c == 0 {
			missing = append(missing, Fault(f))
		}
	}
	return missing
}

// Process is one process on the network; it can die.
type Process struct {
	net  *Net
	ctx  context.Context
	kill context.CancelFunc
	dead atomic.Bool
	// Mortal processes may die at a round trip.
	Mortal bool
	// Safe ones meet no fault.
	Safe bool
	// always is what happens to each of its round trips, to try one fault.
	always Fault
}

// Process starts a process.
func (n *Net) Process(ctx context.Context) *Process {
	p := &Process{net: n}
	p.ctx, p.kill = context.WithCancel(ctx)
	return p
}

// Dead says whether it has died.
func (p *Process) Dead() bool { return p.dead.Load() }

func (p *Process) die() error {
	p.dead.Store(true)
	p.kill()
	return errDead
}

var errDead = errors.New("roundtrip: this process is dead")

// draw decides about a round trip.
func (p *Process) draw(target string, once bool) Fault {
	n := p.net
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trips++
	f := None
	if !p.Safe && !n.over && n.rng.Float64() < n.share {
		f = Fault(1 + n.rng.IntN(int(faults)-1))
	}
	switch {
	case (f == TooSlow || f == Stalled) && n.rng.IntN(4) > 0: // they take long
		f = None
	case (f == DiesBefore || f == DiesAfter) && !p.Mortal,
		f == Collides && !strings.Contains(target, "DynamoDB"),
		// No network delivers a request a second time by itself; what does can
		// be told not to, and Once tells.
		f == Twice && once:
		f = None
	}
	n.counts[f]++
	return f
}

// RoundTrip implements http.RoundTripper.
func (p *Process) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	target := r.Header.Get("X-Amz-Target")
	once := false
	for _, w := range dynamo.CallOf(r.Context()).Writes {
		once = once || w.Once
	}
	if p.Dead() {
		return nil, errDead
	}
	f := p.always
	if f == None {
		f = p.draw(target, once)
	}
	send := func(ctx context.Context) (*http.Response, []byte, error) {
		again := r.Clone(ctx)
		again.Body = io.NopCloser(bytes.NewReader(body))
		out, err := p.net.inner.RoundTrip(again)
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = out.Body.Close() }()
		answer, err := io.ReadAll(out.Body)
		return out, answer, err
	}
	switch f {
	case NotSent:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case Reset:
		return nil, &net.OpError{Op: "write", Net: "tcp", Err: syscall.ECONNRESET}
	case DiesBefore:
		return nil, p.die()
	case Stalled:
		return nil, wait(r.Context())
	case Fails:
		return refusal(r, http.StatusInternalServerError, target, "InternalServerError", ""), nil
	case Busy:
		return page(r), nil
	case Throttled, OverCapacity, Collides:
		return refusal(r, http.StatusBadRequest, target, code(f, target), reasons(f, target, body)), nil
	}
	// The server's work does not end with the caller's patience.
	out, answer, err := send(context.WithoutCancel(r.Context()))
	if err != nil {
		return nil, err
	}
	switch f {
	case AnswerLost:
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	case DiesAfter:
		return nil, p.die()
	case TooSlow:
		return nil, wait(r.Context())
	case FailsLate:
		return refusal(r, http.StatusInternalServerError, target, "InternalServerError", ""), nil
	case BusyLate:
		return page(r), nil
	case BrokenOff:
		out.Body = io.NopCloser(io.MultiReader(bytes.NewReader(answer[:len(answer)/2]), broken{}))
		return out, nil
	case Truncated:
		answer = answer[:len(answer)/2]
		out.Header.Del("X-Amz-Crc32")
	case Garbled:
		answer = []byte("<html>" + strings.Repeat("?", len(answer)%50))
		out.Header.Del("X-Amz-Crc32")
	case Twice:
		later := p.net.delay()
		p.net.late.Go(func() {
			time.Sleep(later)
			_, _, _ = send(context.Background())
		})
	}
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(answer)), int64(len(answer))
	out.Header.Set("Content-Length", strconv.Itoa(len(answer)))
	return out, nil
}

func (n *Net) delay() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Duration(n.rng.Int64N(int64(time.Second)))
}

// wait lasts as long as the caller does.
func wait(ctx context.Context) error {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ETIMEDOUT}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) {
	return 0, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
}

// code is AWS's name for a refusal.
func code(f Fault, target string) string {
	switch {
	case f == Throttled || !strings.Contains(target, "DynamoDB"):
		return "ThrottlingException"
	case f == OverCapacity:
		return "ProvisionedThroughputExceededException"
	case strings.HasSuffix(target, "TransactWriteItems"):
		return "TransactionCanceledException"
	}
	return "TransactionConflictException"
}

// reasons are those of a cancelled transaction: a conflict on its first item.
func reasons(f Fault, target string, body []byte) string {
	if code(f, target) != "TransactionCanceledException" {
		return ""
	}
	none := strings.Repeat(`,{"Code":"None"}`, max(0, bytes.Count(body, []byte(`"TableName"`))-1))
	return `,"CancellationReasons":[{"Code":"TransactionConflict","Message":"Transaction is ongoing for the item"}` + none + `]`
}

func refusal(r *http.Request, status int, target, code, more string) *http.Response {
	space := "com.amazonaws.dynamodb.v20120810"
	if !strings.Contains(target, "DynamoDB") {
		space = "com.amazonaws.sqs"
	}
	return answer(r, status, "application/x-amz-json-1.0", fmt.Sprintf(`{"__type":"%s#%s","message":"injected"%s}`, space, code, more))
}

func page(r *http.Request) *http.Response {
	return answer(r, http.StatusServiceUnavailable, "text/html", "<html><body>503 Service Unavailable</body></html>")
}

func answer(r *http.Request, status int, kind, body string) *http.Response {
	return &http.Response{Status: strconv.Itoa(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}
