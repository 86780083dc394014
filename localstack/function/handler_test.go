package function

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
)

func TestHandlerHasTheJSONOfTheLibrary(t *testing.T) {
	echo := func(_ context.Context, e events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		if e.Body == "fail" {
			return events.APIGatewayV2HTTPResponse{}, errors.New("failed")
		}
		return events.APIGatewayV2HTTPResponse{StatusCode: 200, Body: e.Body}, nil
	}
	discard := func(context.Context, events.SQSEvent) error { return nil }
	for name, tc := range map[string]struct{ ours, theirs lambda.Handler }{
		"answers": {Handler(echo), lambda.NewHandler(echo)},
		"events":  {EventHandler(discard), lambda.NewHandler(discard)},
	} {
		for _, in := range []string{`{"body":"<a>&\u2028"}`, `{"body":"fail"}`, `{}`, `{"body":`, ``, `[]`, `{} trailing`} {
			got, err := tc.ours.Invoke(t.Context(), []byte(in))
			want, wantErr := tc.theirs.Invoke(t.Context(), []byte(in))
			if string(got) != string(want) || (err == nil) != (wantErr == nil) {
				t.Errorf("%s %q: got %q, %v; the library gives %q, %v", name, in, got, err, want, wantErr)
			}
		}
	}
}

func TestConcurrentInvocationsKeepTheirAnswersApart(t *testing.T) {
	f := New(Handler(func(_ context.Context, n int) (string, error) { return strconv.Itoa(n), nil }), quiet(Config{}))
	var wg sync.WaitGroup
	for n := range 500 {
		wg.Go(func() {
			got, err := f.Invoke(t.Context(), []byte(strconv.Itoa(n)))
			if want := strconv.Quote(strconv.Itoa(n)); err != nil || string(got) != want {
				t.Errorf("got %s, %v; want %s", got, err, want)
			}
		})
	}
	wg.Wait()
}

func TestNewRefusesHandlersThatShareBuffers(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a value of lambda.NewHandler was taken")
		}
	}()
	New(lambda.NewHandler(func() {}), Config{})
}
