package sqsqueue_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/sqsqueue"
)

// wire plays SQS at the HTTP round trip; attempts under fail get a 503.
type wire struct {
	fail   int
	code   int
	fault  string
	bodies []map[string]any
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	w.bodies = append(w.bodies, body)
	sum := md5.Sum([]byte(body["MessageBody"].(string)))
	code, answer := 200, fmt.Sprintf(`{"MessageId":"m","MD5OfMessageBody":%q}`, hex.EncodeToString(sum[:]))
	if len(w.bodies) <= w.fail {
		code, answer = w.code, fmt.Sprintf(`{"__type":"com.amazonaws.sqs#%s","message":"no"}`, w.fault)
	}
	return &http.Response{
		StatusCode: code, Request: r, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body:   io.NopCloser(strings.NewReader(answer)), ContentLength: int64(len(answer)),
	}, nil
}

func setup(w *wire) *sqsqueue.Sender { return over(w) }

func over(w http.RoundTripper) *sqsqueue.Sender {
	client := sqs.New(sqs.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String("http://sqs.invalid"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "k", SecretAccessKey: "s"}, nil
		}),
		HTTPClient: &http.Client{Transport: w},
	})
	return sqsqueue.New(client, map[string]string{"critical": "http://sqs.invalid/1/critical"})
}

var message = queue.Outgoing{
	Body: `{"v":1}`, Delay: 3 * time.Second,
	Attributes: map[string]string{"traceparent": "00-1-2-01"},
}

func TestSend(t *testing.T) {
	w := &wire{}
	if err := setup(w).Send(context.Background(), "critical", message); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"QueueUrl": "http://sqs.invalid/1/critical", "MessageBody": `{"v":1}`, "DelaySeconds": 3.0,
		"MessageAttributes": map[string]any{"traceparent": map[string]any{"DataType": "String", "StringValue": "00-1-2-01"}},
	}
	// Equality also says that there are no system attributes: no AWSTraceHeader.
	if len(w.bodies) != 1 || !reflect.DeepEqual(w.bodies[0], want) {
		t.Errorf("sent %v", w.bodies)
	}
}

// The SDK's trace header in Lambda's environment must not reach the message.
func TestNoTraceHeaderFromTheEnvironment(t *testing.T) {
	t.Setenv("_X_AMZN_TRACE_ID", "Root=1-5e1b4151-5ac6c58f5e5d4b1f5e5d4b1f;Sampled=1")
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "worker")
	w := &wire{}
	if err := setup(w).Send(context.Background(), "critical", message); err != nil {
		t.Fatal(err)
	}
	if _, has := w.bodies[0]["MessageSystemAttributes"]; has {
		t.Errorf("sent %v", w.bodies[0])
	}
}

func TestSendIsRetriedThenReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{fail: 2, code: 503, fault: "ServiceUnavailable"}
		if err := setup(w).Send(context.Background(), "critical", message); err != nil || len(w.bodies) != 3 {
			t.Errorf("%v after %d attempts", err, len(w.bodies))
		}
		w = &wire{fail: 99, code: 503, fault: "ServiceUnavailable"}
		err := setup(w).Send(context.Background(), "critical", message)
		var api smithy.APIError
		if !errors.As(err, &api) || !strings.Contains(err.Error(), "critical") || len(w.bodies) != 3 {
			t.Errorf("%v after %d attempts", err, len(w.bodies))
		}
		w = &wire{fail: 99, code: 400, fault: "QueueDoesNotExist"}
		if err := setup(w).Send(context.Background(), "critical", message); err == nil || len(w.bodies) != 1 {
			t.Errorf("%v after %d attempts", err, len(w.bodies))
		}
	})
}

// stalled answers the first attempts never, as a connection that is dead does.
type stalled struct {
	*wire
	n, attempts int
}

func (s *stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.attempts++; s.attempts <= s.n {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return s.wire.RoundTrip(r)
}

// A send must not hold up its caller until the function's own time is over.
func TestAStalledSendIsGivenUpAndRetried(t *testing.T) {
	for _, c := range []struct {
		stalls int
		fails  bool
		most   time.Duration
	}{{1, false, 5 * time.Second}, {99, true, 10 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s := &stalled{wire: &wire{}, n: c.stalls}
			began := time.Now()
			err := over(s).Send(context.Background(), "critical", message)
			if took := time.Since(began); (err != nil) != c.fails || took > c.most {
				t.Errorf("%d stalls: %v after %v and %d attempts", c.stalls, err, took, s.attempts)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // the caller's own end is not retried
		s := &stalled{wire: &wire{}, n: 99}
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := over(s).Send(ctx, "critical", message)
		if took := time.Since(began); err == nil || took != 500*time.Millisecond || s.attempts != 1 {
			t.Errorf("%v after %v and %d attempts", err, took, s.attempts)
		}
	})
}

// An answer that broke off, or that no SQS writes, is no answer.
func TestATornAnswerIsRetried(t *testing.T) {
	for _, answer := range []string{`{"MessageId":"m","MD5`, `<html>no`} {
		synctest.Test(t, func(t *testing.T) {
			torn := &tornOnce{wire: &wire{}, answer: answer}
			if err := over(torn).Send(context.Background(), "critical", message); err != nil || torn.n != 2 {
				t.Errorf("%q: %v after %d attempts", answer, err, torn.n)
			}
		})
	}
}

func TestAnEmptyAnswerIsNoSuccess(t *testing.T) {
	torn := &tornOnce{wire: &wire{}}
	if err := over(torn).Send(context.Background(), "critical", message); err == nil {
		t.Error("an answer without a message's id was taken for success")
	}
}

// tornOnce puts another answer in the place of the first.
type tornOnce struct {
	*wire
	answer string
	n      int
}

func (w *tornOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := w.wire.RoundTrip(r)
	if w.n++; w.n == 1 && err == nil {
		out.Body, out.ContentLength = io.NopCloser(strings.NewReader(w.answer)), int64(len(w.answer))
	}
	return out, err
}

func TestFaultsAreNotSent(t *testing.T) {
	many := map[string]string{}
	for i := range 11 {
		many[fmt.Sprint("a", i)] = "v"
	}
	w := &wire{}
	s := setup(w)
	if err := s.Send(context.Background(), "nosuch", message); !errors.Is(err, sqsqueue.ErrUnknownLane) {
		t.Errorf("got %v", err)
	}
	for name, m := range map[string]queue.Outgoing{
		"no body":         {},
		"negative delay":  {Body: "b", Delay: -time.Second},
		"long delay":      {Body: "b", Delay: 15*time.Minute + time.Second},
		"split second":    {Body: "b", Delay: 1500 * time.Millisecond},
		"many attributes": {Body: "b", Attributes: many},
		"empty attribute": {Body: "b", Attributes: map[string]string{"a": ""}},
	} {
		if err := s.Send(context.Background(), "critical", m); !errors.Is(err, sqsqueue.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if len(w.bodies) != 0 {
		t.Errorf("sent %v", w.bodies)
	}
}
