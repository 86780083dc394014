package differential

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/op/optest"
)

// envEndpoint names the URL of a DynamoDB emulator; envEngine which one it is.
const (
	envEndpoint = "DYNAMODB_ENDPOINT"
	envEngine   = "DYNAMODB_ENGINE"
)

// server is what is known of an emulator behind an endpoint.
type server struct {
	engine engine
	seeds  uint64
	skip   map[string]string // cases of optest, each with AWS's documentation
}

var servers = map[string]server{
	"moto": {
		engine: engine{oneKind: true, unsetEqual: true, removeCreates: true}, seeds: 40,
		skip: map[string]string{
			"cond/no-item":                 unset,
			"cond/missing-attribute":       unset,
			"cond/other-kind":              "moto fails on an order of different kinds; on DynamoDB it is false",
			"write/remove-does-not-create": ghost,
		},
	},
	"ministack": {
		engine: engine{unsetEqual: true, removeCreates: true}, seeds: 150,
		skip: map[string]string{
			"cond/no-item":                 unset,
			"cond/missing-attribute":       unset,
			"write/remove-does-not-create": ghost,
		},
	},
}

const (
	unset = "takes two missing attributes for equal; on DynamoDB nothing equals a missing one"
	ghost = "creates an item by REMOVE alone; DynamoDB does not"
)

func openEndpoint(t *testing.T) (op.Table, server) {
	t.Helper()
	url, name := os.Getenv(envEndpoint), os.Getenv(envEngine)
	if url == "" {
		t.Skipf("%s is not set: run make differential", envEndpoint)
	}
	known, ok := servers[name]
	if !ok {
		t.Fatalf("%s=%q is none of the known emulators", envEngine, name)
	}
	api := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(url), HTTPClient: &http.Client{Transport: ownBody{http.DefaultTransport}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
	table := fmt.Sprintf("differential-%d", time.Now().UnixNano())
	if _, err := api.CreateTable(t.Context(), dynamo.Schema(table)); err != nil {
		t.Fatal(err)
	}
	return dynamo.New(api, table, dynamo.Options{AttemptTimeout: 20 * time.Second}), known
}

// ownBody gives net/http a request body of its own. The SDK closes its body as
// soon as an answer begins; when that is before the writing goroutine has seen
// the body's end, the connection is closed in the middle of the answer. A
// server in the next process is fast enough for that, once in some thousands.
type ownBody struct{ http.RoundTripper }

func (o ownBody) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return o.RoundTripper.RoundTrip(r)
}

// TestEndpoint runs sequences against the emulator at DYNAMODB_ENDPOINT.
func TestEndpoint(t *testing.T) {
	table, known := openEndpoint(t)
	embedded, count := openEmbedded(t), tally{}
	for seed := *first; seed < *first+known.seeds; seed++ {
		v := unknown
		for try := 0; v == unknown && try < 3; try++ { // each among rows of its own
			v = compare(t, seed, embedded, table, fmt.Sprintf("%d.%d#", seed, try), known.engine, count)
		}
		if v != same {
			t.Fatalf("seed %d: verdict %d", seed, v)
		}
	}
	t.Log(count)
}

// TestEndpointDeviations shows what the emulator is known to get wrong.
func TestEndpointDeviations(t *testing.T) {
	openEndpoint(t)
	probe(t, os.Getenv(envEngine), func(t *testing.T) op.Table {
		table, _ := openEndpoint(t)
		return table
	})
}

// TestEndpointConforms holds adapter and emulator to op.Table's guarantees.
func TestEndpointConforms(t *testing.T) {
	table, known := openEndpoint(t)
	optest.Exercise(t, func(*testing.T) op.Table { return table }, optest.Options{Skip: known.skip, Clients: 4, Rounds: 5})
}
