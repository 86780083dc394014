package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"github.com/lanekeeper/lanekeeper/localstack/function"
	"github.com/lanekeeper/lanekeeper/pkg/apigw"
	"github.com/lanekeeper/lanekeeper/pkg/chance"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// submission is a body whose payload has about 150 bytes.
func submission(sleepMS int) string {
	return fmt.Sprintf(`{"class":%q,"payload":{"sleep_ms":%d,"note":%q},"deadline_seconds":3600}`, className, sleepMS, strings.Repeat("n", 120))
}

// event is what API Gateway hands over for a submission (payload format 2.0).
func event(key, body string) apigw.Request {
	return apigw.Request{
		Version: "2.0", RouteKey: "$default", RawPath: "/v1/tasks", Body: body,
		Headers: map[string]string{
			"accept": "*/*", "authorization": "Bearer " + key, "content-length": fmt.Sprint(len(body)), "content-type": "application/json",
			"host": "abcdefghij.execute-api.us-east-1.amazonaws.com", "user-agent": "bench", "x-amzn-trace-id": "Root=1-65c0a1b2-0123456789abcdef01234567",
			"x-forwarded-for": "192.0.2.10", "x-forwarded-port": "443", "x-forwarded-proto": "https",
		},
		RequestContext: lambdaevents.APIGatewayV2HTTPRequestContext{
			RouteKey: "$default", Stage: "$default", RequestID: "JKJaXmPLvHcESHA=", AccountID: "123456789012", APIID: "abcdefghij",
			DomainName: "abcdefghij.execute-api.us-east-1.amazonaws.com", DomainPrefix: "abcdefghij", Time: "01/Jan/2026:00:00:00 +0000", TimeEpoch: 1767225600000,
			HTTP: lambdaevents.APIGatewayV2HTTPRequestContextHTTPDescription{Method: http.MethodPost, Path: "/v1/tasks", Protocol: "HTTP/1.1", SourceIP: "192.0.2.10", UserAgent: "bench"},
		},
	}
}

// stub answers at once, always as a lane with some running attempts and a free
// slot, and a tenant well within its limits would.
type stub struct {
	lane, ledger, tenant, credential op.Item
	rows                             int // accepted
}

func newStub() (*stub, error) {
	s := &stub{
		credential: taskop.PutCredential(tenantKey(0), taskop.Credential{Tenant: "tenant-0"}).Item,
		tenant:     taskop.PutTenant("tenant-0", "bench").Item,
		lane:       taskop.CreateLane(laneName, 8).Item,
		ledger:     op.Item{},
	}
	for range 5 {
		running := taskop.Open{ID: chance.NewID(), Class: className, Bucket: "all", Tenant: "tenant-1", SinceMS: stubEpoch.UnixMilli(), AmountMS: 80, Running: true}
		var err error
		if s.lane, err = op.Apply(s.lane, taskop.AdoptOpen(laneName, running).Changes); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *stub) item(key op.Key) op.Item {
	switch {
	case strings.HasPrefix(key.PK, "K#"):
		return s.credential
	case key == taskop.TenantKey("tenant-0"):
		return s.tenant
	case key == taskop.LaneKey(laneName):
		return s.lane
	case key == taskop.LedgerKey("tenant-0"):
		return s.ledger
	}
	return nil
}

func (s *stub) Get(_ context.Context, key op.Key, _ bool) (op.Item, error) { return s.item(key), nil }

func (s *stub) BatchGet(_ context.Context, keys []op.Key, _ bool) ([]op.Item, error) {
	items := make([]op.Item, len(keys))
	for i, key := range keys {
		items[i] = s.item(key)
	}
	return items, nil
}

func (s *stub) Write(_ context.Context, w op.Write) (op.Item, error) { return s.item(w.Key), nil }

func (s *stub) Transact(context.Context, op.Tx) error {
	s.rows++
	return nil
}

func (s *stub) Query(context.Context, op.Query) (op.Page, error) { return op.Page{}, nil }

func (s *stub) Send(context.Context, string, queue.Outgoing) error { return nil }

// stubEpoch is when the stubbed handler's clock begins; it moves on by
// stubTick whenever it is read, so that copies age and rates recover as in a
// busy instance, the same in every run.
var stubEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const stubTick = 100 * time.Microsecond

func stubClock() func() time.Time {
	var reads atomic.Int64
	return func() time.Time { return stubEpoch.Add(time.Duration(reads.Add(1)) * stubTick) }
}

func newStubbed() (*apigw.Handler, *stub, error) {
	cfg, err := lanesOf(8)
	if err != nil {
		return nil, nil, err
	}
	s, err := newStub()
	if err != nil {
		return nil, nil, err
	}
	svc := intake.New(intake.Deps{Config: cfg, Table: s, Queue: s, Clock: stubClock(), Tally: tally.New(), Float: chance.Float, NewID: chance.NewID})
	return apigw.New(svc, "bench"), s, nil
}

func handlerSection(r *report, decide timing) error {
	h, s, err := newStubbed()
	if err != nil {
		return err
	}
	ctx := context.Background()
	req := event(tenantKey(0), submission(20))
	refused := 0
	value := measure(func(n int) {
		for range n {
			if resp, err := h.Handle(ctx, req); err != nil || resp.StatusCode != http.StatusAccepted {
				refused++
			}
		}
	})
	raw, err := json.Marshal(req)
	if err != nil {
		return err
	}
	wire := function.Handler(h.Handle)
	bytes := measure(func(n int) {
		for range n {
			if _, err := wire.Invoke(ctx, raw); err != nil {
				refused++
			}
		}
	})
	if refused > 0 || s.rows == 0 {
		return fmt.Errorf("%d submissions were not accepted, %d were", refused, s.rows)
	}
	r.section("admission handler, store and queue stubbed (one accepted submission)")
	r.row("handler value (apigw.Handle)", value.String(), "")
	r.row("with the event's and the answer's JSON", bytes.String(), "")
	if decide.ns > 0 {
		r.row("  times the pure decision", fmt.Sprintf("%.0f and %.0f", value.ns/decide.ns, bytes.ns/decide.ns), "")
	}
	return nil
}
