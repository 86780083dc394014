package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/env"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

// startTimeout is when a start counts as hanging.
const startTimeout = 30 * time.Second

// bench starts the function in dir: bootstrap and config.json.
type bench struct {
	dir         string
	environment []string
	away        *http.Server // what stands for the whole network
	connections atomic.Int64
}

// newBench opens what counts connections.
func newBench(dir string) (*bench, error) {
	raw, err := os.ReadFile(filepath.Join(dir, env.DefaultConfig))
	if err != nil {
		return nil, err
	}
	cfg, err := policy.FromCompiled(raw)
	if err != nil {
		return nil, err
	}
	network, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir}
	b.away = &http.Server{
		ReadHeaderTimeout: startTimeout,
		// An answer that the SDK does not repeat.
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				b.connections.Add(1)
			}
		},
	}
	go func() { _ = b.away.Serve(network) }() // ends with close
	url := "http://" + network.Addr().String()
	queues := map[string]string{}
	for _, lane := range cfg.LaneNames() {
		queues[lane] = url + "/000000000000/" + lane
	}
	urls, err := json.Marshal(queues)
	if err != nil {
		return nil, err
	}
	// Nothing is inherited: a setting of this machine must not shorten the way.
	b.environment = []string{
		"PATH=/usr/bin:/bin", "LAMBDA_TASK_ROOT=" + dir,
		"AWS_LAMBDA_FUNCTION_NAME=admission", "AWS_LAMBDA_FUNCTION_VERSION=$LATEST", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256",
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local",
		"AWS_ENDPOINT_URL=" + url, "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + url, "HTTP_PROXY=" + url, "HTTPS_PROXY=" + url,
		env.Table + "=coldstart", env.Aggregator + "=aggregator", env.Queues + "=" + string(urls),
	}
	return b, nil
}

func (b *bench) close() { _ = b.away.Close() }

// sample is one start.
type sample struct {
	toFirstPoll time.Duration
	early       int // connections made by the answer to a first request that needs none
	late        int // and by the answer to a second one, which does
}

// invocation is a request given to the function, and how it was answered.
type invocation struct {
	event  events.APIGatewayV2HTTPRequest
	status int
}

// start starts the function once, has it answer two requests and ends it.
func (b *bench) start(ctx context.Context) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var s sample
	polled := make(chan time.Time, 1)
	answered := make(chan error, 1)
	calls := []*invocation{{event: request(http.MethodGet, "/healthz", "")}, {event: request(http.MethodGet, "/v1/lanes", "Bearer unknown")}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	before := b.connections.Load()
	next := 0 // the function asks for one at a time
	server := &http.Server{ReadHeaderTimeout: startTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := strings.CutPrefix(r.URL.Path, "/2018-06-01/runtime/")
		switch {
		case ok && path == "invocation/next" && next < len(calls):
			if next == 0 {
				polled <- clock.System()
			}
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", strconv.Itoa(next))
			w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(clock.System().Add(startTimeout).UnixMilli(), 10))
			_ = json.NewEncoder(w).Encode(calls[next].event)
		case ok && path == fmt.Sprintf("invocation/%d/response", next):
			var resp events.APIGatewayV2HTTPResponse
			err := json.NewDecoder(r.Body).Decode(&resp)
			calls[next].status = resp.StatusCode
			opened := int(b.connections.Load() - before)
			if next == 0 {
				s.early = opened
			} else {
				s.late = opened
			}
			if next++; next == len(calls) || err != nil {
				answered <- err
			}
			w.WriteHeader(http.StatusAccepted)
		case ok && path == "invocation/next":
			<-r.Context().Done() // nothing more to do
		default:
			text, _ := io.ReadAll(r.Body)
			answered <- fmt.Errorf("the function called %s: %s", r.URL.Path, text)
		}
	})}
	defer func() { _ = server.Close() }()
	go func() { _ = server.Serve(listener) }()

	var output bytes.Buffer
	function := exec.CommandContext(ctx, filepath.Join(b.dir, "bootstrap"))
	function.Dir, function.Stdout, function.Stderr = b.dir, &output, &output
	function.Env = append(slices.Clone(b.environment), "AWS_LAMBDA_RUNTIME_API="+listener.Addr().String())
	began := clock.System()
	if err := function.Start(); err != nil {
		return s, err
	}
	exited := make(chan struct{})
	var ended error
	go func() {
		ended = function.Wait()
		close(exited)
	}()
	select {
	case err = <-answered:
		cancel() // ends the process
		<-exited
	case <-exited:
		err = fmt.Errorf("the function ended or hung: %w", errors.Join(errors.New("no answer"), ended))
	}
	if err != nil {
		return s, fmt.Errorf("%w\n%s", err, output.String())
	}
	s.toFirstPoll = (<-polled).Sub(began)
	if calls[0].status != http.StatusOK || calls[1].status != http.StatusServiceUnavailable || s.late == 0 {
		return s, fmt.Errorf("answers %d and %d (want 200 and, without a store, 503), %d connections in the end (want some)\n%s",
			calls[0].status, calls[1].status, s.late, output.String())
	}
	return s, nil
}

func request(method, path, authorization string) events.APIGatewayV2HTTPRequest {
	e := events.APIGatewayV2HTTPRequest{Version: "2.0", RouteKey: "$default", RawPath: path, Headers: map[string]string{}}
	if authorization != "" {
		e.Headers["authorization"] = authorization
	}
	e.RequestContext.HTTP.Method, e.RequestContext.HTTP.Path = method, path
	return e
}
