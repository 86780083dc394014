package dynamo

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

func TestBatchGetAsksAgainAndKeepsTheOrder(t *testing.T) {
	row := func(n int) string {
		return fmt.Sprintf(`{"pk":{"S":"T#a"},"sk":{"S":"%d"},"n":{"N":"%d"}}`, n, n)
	}
	keys := []op.Key{{PK: "T#a", SK: "1"}, {PK: "T#a", SK: "2"}, {PK: "T#a", SK: "3"}}
	rest := `,"UnprocessedKeys":{"tasks":{"Keys":[{"pk":{"S":"T#a"},"sk":{"S":"1"}}]}}`
	synctest.Test(t, func(t *testing.T) {
		table, w := setup(t, Options{},
			ok(`{"Responses":{"tasks":[`+row(3)+`]}`+rest+`}`), ok(`{"Responses":{}`+rest+`}`), ok(`{"Responses":{"tasks":[`+row(1)+`]}}`))
		got, err := table.BatchGet(bg, keys, true)
		if err != nil || len(got) != 3 || got[0].Int("n") != 1 || got[1] != nil || got[2].Int("n") != 3 {
			t.Fatalf("got %v, %v", got, err)
		}
		for i, want := range []int{3, 1, 1} {
			asked := w.bodies[i]["RequestItems"].(map[string]any)["tasks"].(map[string]any)
			if len(asked["Keys"].([]any)) != want || asked["ConsistentRead"] != true {
				t.Errorf("request %d: %v", i, asked)
			}
		}
		table, _ = setup(t, Options{}, ok(`{"Responses":{}`+rest+`}`))
		if _, err := table.BatchGet(bg, keys, true); reason(err) != op.Throttled {
			t.Errorf("got %v", err)
		}
		if _, err := table.BatchGet(bg, append(keys, keys[0]), true); err == nil {
			t.Error("a key asked for twice was accepted")
		}
		if got, err := table.BatchGet(bg, nil, true); err != nil || len(got) != 0 {
			t.Errorf("no keys gave %v, %v", got, err)
		}
	})
}

func TestQueryPages(t *testing.T) {
	last := `{"pk":{"S":"T#a"},"sk":{"S":"1"},"dk":{"S":"d"},"ds":{"S":"5"}}`
	table, w := setup(t, Options{}, ok(`{"Items":[`+last+`],"LastEvaluatedKey":`+last+`}`), ok(`{"Items":[],"LastEvaluatedKey":`+last+`}`), ok(`{"Items":[]}`))
	q := op.Query{Index: op.IndexDue, PK: "d", From: "4", To: "9", Limit: 1}
	first, err := table.Query(bg, q)
	if err != nil || len(first.Rows) != 1 || first.Cursor == "" || first.Rows[0].Key != (op.Key{PK: "T#a", SK: "1"}) || first.Rows[0].Item.Str("ds") != "5" {
		t.Fatalf("got %+v, %v", first, err)
	}
	if _, has := w.bodies[0]["ConsistentRead"]; has {
		t.Error("a consistent read was asked of an index, which DynamoDB refuses")
	}
	q.Cursor = first.Cursor
	second, err := table.Query(bg, q)
	if err != nil || len(second.Rows) != 0 || second.Cursor == "" {
		t.Errorf("an empty page in the middle ended the query: %+v, %v", second, err)
	}
	if start := w.bodies[1]["ExclusiveStartKey"].(map[string]any); len(start) != 4 {
		t.Errorf("started after %v", start)
	}
	if third, err := table.Query(bg, q); err != nil || third.Cursor != "" {
		t.Errorf("got %+v, %v", third, err)
	}
	sent := len(w.bodies)
	if _, err := table.Query(bg, op.Query{Index: op.IndexDue, PK: "d", Consistent: true}); err == nil || op.IsUnavailable(err) {
		t.Errorf("a consistent read of an index: %v", err)
	}
	for name, bad := range map[string]op.Query{
		"garbled":         {Index: op.IndexDue, PK: "d", Cursor: "%%%"},
		"no JSON":         {Index: op.IndexDue, PK: "d", Cursor: "aGFsbG8"},
		"other index":     {Index: op.IndexReady, PK: "d", Cursor: first.Cursor},
		"the table":       {PK: "T#a", Cursor: first.Cursor},
		"other partition": {Index: op.IndexDue, PK: "e", Cursor: first.Cursor},
		"out of bounds":   {Index: op.IndexDue, PK: "d", From: "6", Cursor: first.Cursor},
	} {
		if _, err := table.Query(bg, bad); !errors.Is(err, op.ErrBadCursor) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if p, err := table.Query(bg, op.Query{PK: "d", From: "b", To: "a"}); err != nil || len(p.Rows) != 0 {
		t.Errorf("crossed bounds: %+v, %v", p, err)
	}
	if len(w.bodies) != sent {
		t.Error("a faulty query was sent")
	}
}

func FuzzCursor(f *testing.F) {
	good, err := writeCursor(op.Query{PK: "p"}, encodeKey(op.Key{PK: "p", SK: "s"}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, "p")
	f.Add("e30", "")
	f.Fuzz(func(t *testing.T, text, pk string) {
		q := op.Query{PK: pk, Cursor: text}
		start, err := readCursor(q)
		if err != nil {
			if !errors.Is(err, op.ErrBadCursor) {
				t.Fatal(err)
			}
			return
		}
		if again, err := writeCursor(q, start); err != nil || again == "" {
			t.Fatalf("%v does not make a cursor: %v", start, err)
		}
	})
}
