package dynamo

import (
	"context"
	"errors"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

type ctx = context.Context

var bg = context.Background()

func reason(err error) op.Reason {
	var u *op.Unavailable
	if errors.As(err, &u) {
		return u.Reason
	}
	return ""
}

func TestWriteSendsOneRequestWithTheItemWantedOnFailure(t *testing.T) {
	table, w := setup(t, Options{}, ok(`{"Attributes":`+item+`}`))
	got, err := table.Write(bg, add)
	if err != nil || got.Int("work") != 7 || got.Has("pk") {
		t.Fatalf("got %v, %v", got, err)
	}
	want := map[string]any{
		"TableName":                           "tasks",
		"Key":                                 map[string]any{"pk": map[string]any{"S": "L#alpha"}, "sk": map[string]any{"S": "L"}},
		"UpdateExpression":                    "ADD #n000 :v000",
		"ConditionExpression":                 "attribute_not_exists(#n000) OR #n000 <= :v001",
		"ExpressionAttributeNames":            map[string]any{"#n000": "work"},
		"ExpressionAttributeValues":           map[string]any{":v000": map[string]any{"N": "1"}, ":v001": map[string]any{"N": "9"}},
		"ReturnValues":                        "ALL_NEW",
		"ReturnValuesOnConditionCheckFailure": "ALL_OLD",
	}
	if len(w.bodies) != 1 || !reflect.DeepEqual(w.bodies[0], want) {
		t.Errorf("sent %v", w.bodies)
	}
}

func TestPutReturnsTheItemPut(t *testing.T) {
	table, w := setup(t, Options{}, ok(`{}`))
	got, err := table.Write(bg, op.Write{Name: "p", Key: key, Item: op.Item{"a": op.B(nil)}})
	if err != nil || !got.Has("a") {
		t.Fatalf("got %v, %v", got, err)
	}
	if a := w.bodies[0]["Item"].(map[string]any)["a"]; !reflect.DeepEqual(a, map[string]any{"B": ""}) {
		t.Errorf("empty bytes were sent as %v", a)
	}
}

func TestFailedCondition(t *testing.T) {
	table, _ := setup(t, Options{},
		fault(400, "ConditionalCheckFailedException", "The conditional request failed", `,"Item":`+item),
		fault(400, "ConditionalCheckFailedException", "The conditional request failed"))
	_, err := table.Write(bg, add)
	if it, failed := op.FailedCond(err).On(0); !failed || it.Int("work") != 7 {
		t.Fatalf("got %v, %v", it, err)
	}
	_, err = table.Write(bg, add)
	if it, failed := op.FailedCond(err).On(0); !failed || it != nil {
		t.Fatalf("got %v, %v, want the condition failed on a missing item", it, err)
	}
}

// Every kind of trouble: how often it is sent, and what it is called.
func TestTroubles(t *testing.T) {
	lost := func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset by peer") }
	refusedConn := func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	for _, tc := range []struct {
		name   string
		answer answer
		want   op.Reason
	}{
		{"provisioned throughput", fault(400, "ProvisionedThroughputExceededException", "slow"), op.Throttled},
		{"throttling", fault(400, "ThrottlingException", "slow"), op.Throttled},
		{"request limit", fault(400, "RequestLimitExceeded", "slow"), op.Throttled},
		{"internal error", fault(500, "InternalServerError", "oops"), op.Internal},
		{"bad gateway", status(502, "<html>"), op.Internal},
		{"no answer", stalled, op.Timeout},
		{"connection lost", lost, op.Internal},
		{"connection refused", refusedConn, op.Internal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, w := setup(t, Options{}, tc.answer)
				_, err := table.Write(bg, add)
				if reason(err) != tc.want || op.FailedCond(err) != nil {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				if len(w.bodies) != 4 {
					t.Errorf("sent %d times, want 4", len(w.bodies))
				}
				if took := w.at[3].Sub(w.at[0]); took > 3*2*time.Second+3*400*time.Millisecond {
					t.Errorf("four attempts took %s", took)
				}

				table, w = setup(t, Options{}, tc.answer)
				once := add
				once.Once = true
				if _, err = table.Write(bg, once); reason(err) != tc.want {
					t.Errorf("once: got %v", err)
				}
				if len(w.bodies) != 1 {
					t.Errorf("a write to be sent once was sent %d times", len(w.bodies))
				}

				table, w = setup(t, Options{}, tc.answer, tc.answer, ok(`{"Item":`+item+`}`))
				if it, err := table.Get(bg, key, true); err != nil || it.Int("work") != 7 || len(w.bodies) != 3 {
					t.Errorf("get: %v, %v after %d attempts", it, err, len(w.bodies))
				}
			})
		})
	}
}

func TestFaultsOfTheCallerAreNotTheStores(t *testing.T) {
	table, w := setup(t, Options{}, fault(400, "ValidationException", "Invalid UpdateExpression"))
	if _, err := table.Write(bg, add); err == nil || op.IsUnavailable(err) || errors.Is(err, op.ErrTooLarge) || len(w.bodies) != 1 {
		t.Errorf("got %v after %d attempts", err, len(w.bodies))
	}
	table, _ = setup(t, Options{}, fault(400, "ValidationException", "Item size to update has exceeded the maximum allowed size"))
	if _, err := table.Write(bg, add); !errors.Is(err, op.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	table, _ = setup(t, Options{}, ok(`{"Item":{"pk":{"S":"L#alpha"},"sk":{"S":"L"},"work":{"N":"1.5"}}}`))
	if _, err := table.Get(bg, key, true); reason(err) != op.Internal {
		t.Errorf("an item that is none of ours gave %v", err)
	}
	table, _ = setup(t, Options{}, fault(400, "ResourceNotFoundException", "Requested resource not found"))
	if _, err := table.Get(bg, key, true); reason(err) != op.Internal {
		t.Errorf("a missing table gave %v: the store cannot answer, which is not the caller's fault", err)
	}
	table, w = setup(t, Options{}, ok(`{}`))
	big := op.Write{Name: "big", Key: key, Item: op.Item{"b": op.B(make([]byte, op.MaxItemBytes))}}
	if _, err := table.Write(bg, big); !errors.Is(err, op.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if err := table.Transact(bg, op.Tx{Writes: []op.Write{big}}); !errors.Is(err, op.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if _, err := table.Write(bg, op.Write{Key: key, Action: op.Check, Cond: op.ItemExists}); err == nil {
		t.Error("a check outside a transaction was accepted")
	}
	if _, err := table.Get(bg, op.Key{PK: "p"}, true); err == nil || op.IsUnavailable(err) {
		t.Errorf("half a key: %v", err)
	}
	if _, err := table.BatchGet(bg, []op.Key{key, {SK: "s"}}, true); err == nil || op.IsUnavailable(err) {
		t.Errorf("half a key: %v", err)
	}
	if len(w.bodies) != 0 {
		t.Errorf("%d faulty requests were sent", len(w.bodies))
	}
}

// The answer to the first attempt is lost after it was applied; the second one
// meets its own result. That must not look like a refusal.
func TestOwnFirstApplicationIsNoFailedCondition(t *testing.T) {
	met := fault(400, "ConditionalCheckFailedException", "The conditional request failed", `,"Item":`+item)
	for name, first := range map[string]answer{"500": fault(500, "InternalServerError", "oops"), "torn answer": torn(200), "no answer": stalled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, w := setup(t, Options{}, first, met)
				_, err := table.Write(bg, add)
				if op.FailedCond(err) != nil || !op.IsUnavailable(err) {
					t.Errorf("got %v", err)
				}
				if len(w.bodies) != 2 {
					t.Errorf("%d attempts", len(w.bodies))
				}
			})
		})
	}
	for name, first := range map[string]answer{"throttled": fault(400, "ThrottlingException", "slow"), "torn refusal": torn(400)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, w := setup(t, Options{}, first, met)
				if _, err := table.Write(bg, add); op.FailedCond(err) == nil || len(w.bodies) != 2 {
					t.Errorf("got %v after %d attempts, but the first has surely done nothing", err, len(w.bodies))
				}
			})
		})
	}
}

func TestConflictIsRetriedInPlace(t *testing.T) {
	for name, conflict := range map[string]answer{
		"cancelled":   cancelled("None", "TransactionConflict"),
		"in progress": fault(400, "TransactionInProgressException", "in progress"),
		"throttled":   cancelled("ThrottlingError", "None"),
		// The failed condition alone would say that the other one held.
		"conflict beside a failed condition": cancelled("ConditionalCheckFailed="+item, "TransactionConflict"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, w := setup(t, Options{}, conflict, conflict, conflict, ok(`{}`))
				tx := op.Tx{Name: "accept", Writes: []op.Write{{Name: "accept.row", Key: op.Key{PK: "T#a", SK: "1"}}, add}}
				if err := table.Transact(bg, tx); err != nil {
					t.Fatal(err)
				}
				if len(w.bodies) != 4 {
					t.Errorf("%d attempts", len(w.bodies))
				}
				token := w.bodies[0]["ClientRequestToken"].(string)
				for _, b := range w.bodies {
					if b["ClientRequestToken"] != token {
						t.Error("the token changed: an attempt still on its way could be applied besides")
					}
					if !reflect.DeepEqual(b, w.bodies[0]) {
						t.Error("the request changed under its token, which DynamoDB refuses")
					}
				}
				if len(token) < 1 || len(token) > 36 {
					t.Errorf("token %q", token)
				}
				if err := table.Transact(bg, tx); err != nil || w.bodies[4]["ClientRequestToken"] == token {
					t.Errorf("another transaction has the same token (%v)", err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		// Single writes meet transactions too; nothing was done, so Once is no obstacle.
		table, w := setup(t, Options{}, fault(400, "TransactionConflictException", "ongoing"), ok(`{"Attributes":`+item+`}`))
		once := add
		once.Once = true
		if it, err := table.Write(bg, once); err != nil || it.Int("work") != 7 || len(w.bodies) != 2 {
			t.Errorf("got %v, %v after %d attempts", it, err, len(w.bodies))
		}
	})
}

func TestConflictsEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, w := setup(t, Options{}, cancelled("TransactionConflict"))
		start := time.Now()
		err := table.Transact(bg, op.Tx{Name: "accept", Writes: []op.Write{add}})
		if reason(err) != op.Conflict {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took > 1500*time.Millisecond || took < 500*time.Millisecond {
			t.Errorf("tried for %s", took)
		}
		if n := len(w.bodies); n < 5 || n > 60 {
			t.Errorf("%d attempts", n)
		}

		table, _ = setup(t, Options{ConflictTime: time.Hour}, cancelled("TransactionConflict"))
		short, cancel := context.WithTimeout(bg, 300*time.Millisecond)
		defer cancel()
		start = time.Now()
		if err := table.Transact(short, op.Tx{Name: "accept", Writes: []op.Write{add}}); !op.IsUnavailable(err) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took > 300*time.Millisecond {
			t.Errorf("the context's end was not kept: %s", took)
		}
	})
}

// With a rand of 1 the waits are the bounds themselves.
func TestBackoffGrowsToItsCap(t *testing.T) {
	o := Options{Rand: func() float64 { return 0.999999 }}.withDefaults()
	var got []string
	for n := range 7 {
		got = append(got, o.backoff(n).Round(time.Millisecond).String())
	}
	if s := strings.Join(got, " "); s != "20ms 40ms 80ms 160ms 320ms 400ms 400ms" {
		t.Error(s)
	}
	if d := o.backoff(1 << 30); d > o.BackoffCap {
		t.Error(d)
	}
	synctest.Test(t, func(t *testing.T) {
		table, w := setup(t, Options{Rand: o.Rand}, fault(500, "InternalServerError", "oops"))
		_, _ = table.Get(bg, key, true)
		got = nil
		for i := 1; i < len(w.at); i++ {
			got = append(got, w.at[i].Sub(w.at[i-1]).Round(time.Millisecond).String())
		}
		if s := strings.Join(got, " "); s != "20ms 40ms 80ms" {
			t.Errorf("the SDK waited %s", s)
		}
	})
}

func TestCancellationReasons(t *testing.T) {
	row := op.Write{Name: "accept.row", Key: op.Key{PK: "T#a", SK: "1"}, Cond: op.ItemMissing}
	tx := op.Tx{Name: "accept", Writes: []op.Write{row, add, {Name: "c", Key: op.Key{PK: "x", SK: "x"}, Action: op.Check, Cond: op.ItemExists}}}
	table, _ := setup(t, Options{}, cancelled("None", "ConditionalCheckFailed="+item, "ConditionalCheckFailed"))
	failed := op.FailedCond(table.Transact(bg, tx))
	if failed == nil || len(failed.Failed) != 2 || failed.Name != "accept" {
		t.Fatalf("got %v", failed)
	}
	if it, bad := failed.On(1); !bad || it.Int("work") != 7 {
		t.Errorf("write 1: %v %v", it, bad)
	}
	if it, bad := failed.On(2); !bad || it != nil {
		t.Errorf("write 2: %v %v", it, bad)
	}
	if _, bad := failed.On(0); bad {
		t.Error("write 0 did not fail")
	}
	table, w := setup(t, Options{}, cancelled("ValidationError", "TransactionConflict"))
	if err := table.Transact(bg, tx); err == nil || op.IsUnavailable(err) || op.FailedCond(err) != nil || len(w.bodies) != 1 {
		t.Errorf("a faulty transaction gave %v after %d attempts", err, len(w.bodies))
	}
	table, _ = setup(t, Options{}, fault(400, "IdempotentParameterMismatchException", "mismatch"))
	if err := table.Transact(bg, tx); err == nil || op.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
	for i, item := range w.bodies[0]["TransactItems"].([]any) {
		for _, part := range item.(map[string]any) {
			if part.(map[string]any)["ReturnValuesOnConditionCheckFailure"] != "ALL_OLD" {
				t.Errorf("write %d does not ask for the item it met", i)
			}
		}
	}
}

func TestCallNames(t *testing.T) {
	var seen []Call
	client := recorder{API: nil, seen: &seen}
	table := New(client, "tasks", Options{})
	_, _ = table.Get(bg, key, true)
	_, _ = table.Query(bg, op.Query{Index: op.IndexReady, PK: "critical"})
	_ = table.Transact(bg, op.Tx{Name: "accept", Writes: []op.Write{add}})
	if len(seen) != 3 || seen[0].Name != "get L" || seen[1].Name != "query ready" || seen[2].Name != "accept" || len(seen[2].Writes) != 1 {
		t.Errorf("seen %+v", seen)
	}
}

func TestSchemaHasOpsIndexes(t *testing.T) {
	in := Schema("tasks")
	if len(in.GlobalSecondaryIndexes) != len(op.Indexes()) || len(in.AttributeDefinitions) != 2+2*len(op.Indexes()) {
		t.Fatalf("%+v", in)
	}
	for i, ix := range op.Indexes() {
		pk, sk := ix.Keys()
		g := in.GlobalSecondaryIndexes[i]
		if *g.IndexName != string(ix) || *g.KeySchema[0].AttributeName != pk || *g.KeySchema[1].AttributeName != sk || g.Projection.ProjectionType != "KEYS_ONLY" {
			t.Errorf("%s: %+v", ix, g)
		}
	}
}
