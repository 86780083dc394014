package roundtrip

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
	"github.com/lanekeeper/lanekeeper/pkg/op"
)

const whole = `{"Attributes":{"n":{"N":"1"},"pk":{"S":"p"},"sk":{"S":"s"}}}`

// TestFaultsDoWhatTheySay: what the server sees of each fault, and what the
// caller.
func TestFaultsDoWhatTheySay(t *testing.T) {
	var seen atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		seen.Add(1)
		_, _ = io.WriteString(w, whole)
	}))
	defer server.Close()
	for _, c := range []struct {
		fault   Fault
		arrives int64
		status  int // 0: an error
		body    string
	}{
		{None, 1, 200, whole}, {NotSent, 0, 0, ""}, {Reset, 0, 0, ""}, {AnswerLost, 1, 0, ""}, {BrokenOff, 1, 200, "broken"}, {Truncated, 1, 200, whole[:len(whole)/2]},
		{Garbled, 1, 200, "<html>"}, {TooSlow, 1, 0, ""}, {Stalled, 0, 0, ""}, {Fails, 0, 500, "InternalServerError"}, {Busy, 0, 503, "<html>"},
		{FailsLate, 1, 500, "InternalServerError"}, {BusyLate, 1, 503, "<html>"}, {Throttled, 0, 400, "ThrottlingException"},
		{OverCapacity, 0, 400, "ProvisionedThroughputExceededException"}, {Collides, 0, 400, "TransactionConflictException"},
		{Twice, 2, 200, whole}, {DiesBefore, 0, 0, ""}, {DiesAfter, 1, 0, ""},
	} {
		seen.Store(0)
		n := NewNet(1, 0)
		p := n.Process(t.Context())
		p.always = c.fault
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if c.fault == TooSlow || c.fault == Stalled {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810.UpdateItem")
		out, err := p.RoundTrip(r)
		if err == nil {
			body, rerr := io.ReadAll(out.Body)
			if out.StatusCode != c.status || c.body == "broken" != (rerr != nil) || rerr == nil && !strings.Contains(string(body), c.body) {
				t.Errorf("%v: %d %q %v", c.fault, out.StatusCode, body, rerr)
			}
		} else if c.status != 0 {
			t.Errorf("%v: %v", c.fault, err)
		}
		n.Heal()
		if seen.Load() != c.arrives {
			t.Errorf("%v: the server saw %d requests, want %d", c.fault, seen.Load(), c.arrives)
		}
		if dies := c.fault == DiesBefore || c.fault == DiesAfter; p.Dead() != dies || dies != errors.Is(err, errDead) {
			t.Errorf("%v: dead %t, %v", c.fault, p.Dead(), err)
		}
		cancel()
	}
}

// TestAdapterUnderEachFault: under every fault that does not end, the adapter
// answers in time that the store is in trouble; a write that must not be
// repeated arrives no more than once.
func TestAdapterUnderEachFault(t *testing.T) {
	var seen atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		seen.Add(1)
		_, _ = io.WriteString(w, whole)
	}))
	defer server.Close()
	for f := NotSent; f < faults; f++ {
		if f == Twice {
			continue // is no fault of the call
		}
		for _, once := range []bool{false, true} {
			seen.Store(0)
			p := NewNet(1, 0).Process(t.Context())
			p.always = f
			api := dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: aws.String(server.URL), HTTPClient: &http.Client{Transport: p},
				Credentials: aws.CredentialsProviderFunc(credentials)})
			table := dynamo.New(api, "t", dynamo.Options{AttemptTimeout: 100 * time.Millisecond, ConflictTime: 50 * time.Millisecond, BackoffBase: time.Millisecond, BackoffCap: time.Millisecond})
			_, err := table.Write(p.ctx, op.Write{Name: "w", Key: op.Key{PK: "p", SK: "s"}, Action: op.Update, Changes: []op.Change{op.Add("n", 1)}, Once: once})
			if !op.IsUnavailable(err) {
				t.Errorf("%v, once %t: %v", f, once, err)
			}
			if once && seen.Load() > 1 {
				t.Errorf("%v: a write that must not be repeated arrived %d times", f, seen.Load())
			}
		}
	}
}
