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

func setup(w *wire) *sqsqueue.Sender {
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
