package taskop_test

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

func TestRowsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawTask(t, rapid.SampledFrom(task.States()).Draw(t, "state"))
		it := taskop.EncodeRow(x)
		w := op.Write{Name: "put", Key: taskop.RowKey(x.Tenant, x.ID), Action: op.Put, Item: it}
		if err := w.Validate(); err != nil {
			t.Fatal(err)
		}
		if got := decode(t, x, it); !reflect.DeepEqual(got, x) {
			t.Fatalf("came back as\n%+v, not\n%+v", got, x)
		}
		indexed(t, x, it)
	})
}

// indexed checks that an item stands in the indexes its state asks for: what
// is live is due, what waits is in the ready order or parked.
func indexed(t fataler, x *task.Task, it op.Item) {
	t.Helper()
	if it.Has("dk") != x.State.Live() || it.Has("ds") != x.State.Live() {
		t.Fatalf("%s: due index %q/%q", x.State, it.Str("dk"), it.Str("ds"))
	}
	if it.Has("rk") != it.Has("rs") || it.Has("rk") && x.State != task.Waiting && x.State != task.Quarantined {
		t.Fatalf("%s: ready index %q/%q", x.State, it.Str("rk"), it.Str("rs"))
	}
	if x.State == task.Quarantined {
		for _, order := range []string{taskop.ReadyPartition(x.AtLane), taskop.ParkedPartition(x.AtLane)} {
			if it.Str("rk") == order {
				t.Fatalf("quarantined, but in the order of release: %q", order)
			}
		}
	}
	if x.State != task.Waiting {
		return
	}
	want := taskop.ReadyPartition(x.AtLane)
	if x.Parked {
		want = taskop.ParkedPartition(x.AtLane)
	}
	e, err := taskop.ParseReadySort(it.Str("rs"))
	if it.Str("rk") != want || err != nil || e.Tag != x.Tag || e.SubmittedMS != x.Since() || e.AmountMS != x.AmountMS || x.Parked && e.Tenant != x.Tenant {
		t.Fatalf("parked %v: stands in %q as %q: %+v, %v", x.Parked, it.Str("rk"), it.Str("rs"), e, err)
	}
}

func TestRowsThatCannotBeReadAreErrors(t *testing.T) {
	good := taskop.EncodeRow(&task.Task{State: task.Queued, AtLane: "a", DueMS: 1})
	key := taskop.RowKey("alpha", "id")
	for name, c := range map[string]struct {
		key  op.Key
		attr string
		v    op.Value
	}{
		"an unknown state":   {key, "st", op.S("dreaming")},
		"no state":           {key, "st", op.N(1)},
		"a broken error":     {key, "er", op.S("{")},
		"a broken history":   {key, "hs", op.S(`{"n":1}`)},
		"another kind of PK": {op.Key{PK: "L#alpha", SK: "l"}, "gen", op.N(0)},
		"a PK without shard": {op.Key{PK: "T#", SK: "l"}, "gen", op.N(0)},
	} {
		it := good.Clone()
		it[c.attr] = c.v
		if got, err := taskop.DecodeRow(c.key, it); err == nil {
			t.Errorf("%s was read as %+v", name, got)
		}
	}
}

func TestRowKeysNameTheirTask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenant := rapid.OneOf(names, rapid.Just("a#1"), rapid.Just("a#b#2")).Draw(t, "tenant")
		id := ids.Draw(t, "id")
		gotTenant, gotID, ok := taskop.ParseRowKey(taskop.RowKey(tenant, id))
		if !ok || gotTenant != tenant || gotID != id {
			t.Fatalf("%q, %q, %v", gotTenant, gotID, ok)
		}
	})
}

// TestSortKeysOrderAsNumbersDo: the strings of the indexes stand in the order
// of what they say.
func TestSortKeysOrderAsNumbersDo(t *testing.T) {
	type place struct {
		tag, submitted int64
		id             string
		amount         int64
	}
	small := rapid.Int64Range(0, 3)
	rapid.Check(t, func(t *rapid.T) {
		draw := func() place {
			return place{rapid.OneOf(small, rapid.Int64Range(0, 7_999_999_999_999_999)).Draw(t, "tag"), rapid.OneOf(small, times).Draw(t, "submitted"),
				rapid.SampledFrom([]string{"0190a", "0190b", "1290a"}).Draw(t, "id"), amounts.Draw(t, "amount")}
		}
		a, b := draw(), draw()
		before := func(a, b place) bool {
			switch {
			case a.tag != b.tag:
				return a.tag < b.tag
			case a.submitted != b.submitted:
				return a.submitted < b.submitted
			}
			return a.id < b.id
		}
		ka, kb := taskop.ReadySort(a.tag, a.submitted, a.id, a.amount), taskop.ReadySort(b.tag, b.submitted, b.id, b.amount)
		if a.tag != b.tag || a.submitted != b.submitted || a.id != b.id {
			if (ka < kb) != before(a, b) {
				t.Fatalf("%+v is %q, %+v is %q", a, ka, b, kb)
			}
		}
		e, err := taskop.ParseReadySort(ka)
		if err != nil || e != (taskop.ReadyEntry{Tag: a.tag, SubmittedMS: a.submitted, ID: a.id, AmountMS: a.amount}) {
			t.Fatalf("%q reads as %+v, %v", ka, e, err)
		}
		if (taskop.DueSort(a.submitted) < taskop.DueSort(b.submitted)) != (a.submitted < b.submitted) || taskop.ParseDueSort(taskop.DueSort(a.submitted)) != a.submitted {
			t.Fatalf("due %d is %q, %d is %q", a.submitted, taskop.DueSort(a.submitted), b.submitted, taskop.DueSort(b.submitted))
		}
	})
	if got := taskop.DueSort(-5); got != taskop.DueSort(0) {
		t.Errorf("a time before 1970 sorts as %q", got)
	}
}

// TestParkedRangeHoldsOneTenantsTasks: also where a name begins another.
func TestParkedRangeHoldsOneTenantsTasks(t *testing.T) {
	near := rapid.SampledFrom([]string{"a", "a-b", "a.b", "a0", "aa", "b", "a1"})
	rapid.Check(t, func(t *rapid.T) {
		x := drawTask(t, task.Waiting)
		x.Parked = true
		x.Tenant = rapid.OneOf(near, names).Draw(t, "parked tenant")
		other := rapid.OneOf(near, names).Draw(t, "other")
		rs := taskop.EncodeRow(x).Str("rs")
		from, to := taskop.ParkedRange(other)
		if in := from <= rs && rs <= to; in != (x.Tenant == other) {
			t.Fatalf("%q in the range of %q: %v", rs, other, in)
		}
		x.Parked = false
		if order := taskop.OrderOf(rs); order != taskop.EncodeRow(x).Str("rs") {
			t.Fatalf("%q is not where it would stand in the order: %q", rs, order)
		}
	})
}

func TestLargePayloadsAndResultsStandBesideTheRow(t *testing.T) {
	big := `"` + strings.Repeat("x", taskop.InlineMax) + `"`
	x := &task.Task{Tenant: "a", ID: "i", State: task.Queued, AtLane: "l", Payload: big, AmountMS: 1}
	tx := taskop.Accept(x, taskop.LedgerUse{AmountMS: 1}, 0)
	row := decode(t, x, tx.Writes[taskop.OnRow].Item)
	if len(tx.Writes) != 3 || row.Payload != "" || !row.PayloadBeside || taskop.Body(tx.Writes[2].Item) != big || tx.Writes[2].Key != taskop.PayloadKey("a", "i") {
		t.Fatalf("%+v", tx)
	}
	if x.Payload != big || x.PayloadBeside {
		t.Error("the task itself was changed")
	}
	if got := taskop.Withdraw(row); len(got.Writes) != 3 || got.Writes[2].Key != taskop.PayloadKey("a", "i") || got.Writes[2].Action != op.Delete {
		t.Errorf("a withdrawal leaves the payload: %+v", got)
	}
	run := *row
	run.State, run.Gen, run.LeaseToken = task.Running, 4, "token"
	after := run
	after.Result = big
	end := taskop.Finish(&run, taskop.End{Event: task.Succeed, After: &after})
	if len(end.Writes) != 3 || end.Writes[2].Key != taskop.ResultKey("a", "i", 4) || taskop.Body(end.Writes[2].Item) != big {
		t.Fatalf("%+v", end)
	}
	done := decode(t, x, must(t, end.Writes[taskop.OnRow], taskop.EncodeRow(&run)))
	if done.Result != "" || !done.ResultBeside {
		t.Errorf("the row holds %q, beside %v", done.Result, done.ResultBeside)
	}
}

func FuzzDecodeRow(f *testing.F) {
	f.Add("T#a#1", "queued", `{"c":"x"}`, `[{"n":1}]`, "0000000000001")
	f.Add("T#a", "", "null", "null", "x")
	f.Fuzz(func(t *testing.T, pk, state, failure, history, due string) {
		it := op.Item{"st": op.S(state), "er": op.S(failure), "hs": op.S(history), "ds": op.S(due), "gen": op.S(due)}
		x, err := taskop.DecodeRow(op.Key{PK: pk, SK: "id"}, it)
		if err == nil && (!x.State.Valid() || x.ID != "id") {
			t.Errorf("%+v", x)
		}
	})
}

func FuzzParseReadySort(f *testing.F) {
	f.Add("0000000000000001.0000000000002.id.3")
	f.Add("t/0000000000000001.0000000000002.id.3")
	f.Add("1.2.3")
	f.Fuzz(func(t *testing.T, s string) {
		e, err := taskop.ParseReadySort(s)
		if err != nil {
			return
		}
		again, err := taskop.ParseReadySort(taskop.ReadySort(e.Tag, e.SubmittedMS, e.ID, e.AmountMS))
		e.Tenant = ""
		if err != nil || again != e {
			t.Errorf("%q reads as %+v, written again as %+v, %v", s, e, again, err)
		}
	})
}
