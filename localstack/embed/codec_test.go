package embed

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

func anyValue() *rapid.Generator[op.Value] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64(), op.N),
		rapid.Map(rapid.String(), op.S),
		rapid.Map(rapid.SliceOf(rapid.Byte()), op.B),
	)
}

func TestCodecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		item := op.Item(rapid.MapOfN(rapid.String(), anyValue(), 0, 8).Draw(t, "item"))
		raw := encodeItem(item)
		got, err := decodeItem(raw)
		if err != nil || !reflect.DeepEqual(got, item) {
			t.Fatalf("%v became %v, %v", item, got, err)
		}
		if _, err := decodeItem(append(raw, 0)); err == nil {
			t.Fatal("a byte too many")
		}
		for cut := range raw {
			if got, err := decodeItem(raw[:cut]); err == nil {
				t.Fatalf("cut at %d: decoded as %v", cut, got)
			}
		}
	})
}

func FuzzDecodeItem(f *testing.F) {
	f.Add(encodeItem(op.Item{"n": op.N(-5), "s": op.S("x"), "b": op.B([]byte{0})}))
	f.Add([]byte{codecVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{2, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		item, err := decodeItem(raw)
		if err != nil {
			return
		}
		again, err := decodeItem(encodeItem(item))
		if err != nil || !reflect.DeepEqual(again, item) {
			t.Fatalf("%v became %v, %v", item, again, err)
		}
	})
}

func FuzzCursor(f *testing.F) {
	q := op.Query{Index: op.IndexReady, PK: "lane"}
	f.Add(encodeCursor(q, &place{"1", "pk", "sk"}), "lane")
	f.Add(encodeCursor(q, nil), "lane")
	f.Add("AQVyZWFkeQ", "")
	f.Fuzz(func(t *testing.T, cursor, pk string) {
		q := op.Query{Index: op.IndexReady, PK: pk, Cursor: cursor}
		at, begun, err := decodeCursor(q)
		if err != nil {
			return
		}
		if !begun && at != (place{}) || begun && at.sort == "" {
			t.Fatalf("%q: begun %v at %v", cursor, begun, at)
		}
	})
}

func FuzzReceiptHandle(f *testing.F) {
	f.Add(handle{1, 2, 3, "id"}.encode())
	f.Fuzz(func(t *testing.T, text string) {
		fifo := &fifo{id: 1}
		h, err := fifo.decodeHandle(text)
		if err != nil {
			return
		}
		again, err := fifo.decodeHandle(h.encode())
		if err != nil || again != h {
			t.Fatalf("%v became %v, %v", h, again, err)
		}
	})
}

func TestEncodingIsStable(t *testing.T) {
	// Files outlive builds: this layout is read by every later version.
	got := encodeItem(op.Item{"n": op.N(-1), "b": op.B([]byte{9}), "a": op.S("x")})
	want := []byte{1, 3, 1, 'a', 1, 1, 'x', 1, 'b', 3, 1, 9, 1, 'n', 2, 1}
	if !bytes.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}
