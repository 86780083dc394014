package dynamo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// answer is what the fake DynamoDB does with one attempt.
type answer func(*http.Request) (*http.Response, error)

// wire plays DynamoDB at the HTTP round trip: attempt n gets answer n, the
// last one for ever. It keeps what was sent.
type wire struct {
	answers []answer
	targets []string
	bodies  []map[string]any
	at      []time.Time
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	n := len(w.bodies)
	w.bodies = append(w.bodies, body)
	w.targets = append(w.targets, strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810."))
	w.at = append(w.at, time.Now())
	return w.answers[min(n, len(w.answers)-1)](r)
}

func status(code int, body string) answer {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Request: r, ProtoMajor: 1, ProtoMinor: 1,
			Header:        http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
			Body:          io.NopCloser(strings.NewReader(body)),
			ContentLength: int64(len(body)),
		}, nil
	}
}

func ok(body string) answer { return status(200, body) }

// fault answers with one of DynamoDB's exceptions; more is JSON to add.
func fault(code int, exception, message string, more ...string) answer {
	return status(code, fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":%q%s}`,
		exception, message, strings.Join(more, "")))
}

// cancelled answers with a cancelled transaction of the given reasons; "=" and
// an item in JSON may follow a code.
func cancelled(reasons ...string) answer {
	parts := make([]string, len(reasons))
	for i, r := range reasons {
		code, item, has := strings.Cut(r, "=")
		parts[i] = fmt.Sprintf(`{"Code":%q`, code)
		if has {
			parts[i] += `,"Item":` + item
		}
		parts[i] += "}"
	}
	return fault(400, "TransactionCanceledException", "Transaction cancelled", `,"CancellationReasons":[`+strings.Join(parts, ",")+`]`)
}

// stalled never answers.
func stalled(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// torn breaks the connection in the middle of the answer.
func torn(code int) answer {
	return func(r *http.Request) (*http.Response, error) {
		res, err := status(code, `{"Attributes":{`)(r)
		res.Body = io.NopCloser(io.MultiReader(bytes.NewBufferString(`{"Attr`), failing{}))
		return res, err
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// setup returns a table whose client speaks to the wire.
func setup(t *testing.T, opts Options, answers ...answer) (*Table, *wire) {
	t.Helper()
	w := &wire{answers: answers}
	client := dynamodb.New(dynamodb.Options{
		Region:       "eu-central-1",
		BaseEndpoint: aws.String("http://dynamo.invalid"),
		Credentials: aws.CredentialsProviderFunc(func(ctx ctx) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "k", SecretAccessKey: "s"}, nil
		}),
		HTTPClient: &http.Client{Transport: w},
	})
	return New(client, "tasks", opts), w
}

var (
	key  = op.Key{PK: "L#alpha", SK: "L"}
	item = `{"pk":{"S":"L#alpha"},"sk":{"S":"L"},"work":{"N":"7"}}`
	add  = op.Write{Name: "accept.ledger", Key: key, Action: op.Update, Cond: op.AtMost("work", 9), Changes: []op.Change{op.Add("work", 1)}}
)
