package embed

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// An item is stored as
//
//	version byte | count | count × (name, kind byte, value)
//
// with attributes in the order of their names; names, strings and bytes are
// length-prefixed, numbers and lengths are (zig-zag) varints.
const codecVersion = 1

var errCodec = errors.New("embed: damaged item")

func encodeItem(item op.Item) []byte {
	size := 2
	for attr, v := range item {
		size += len(attr) + v.Len() + 12
	}
	out := append(make([]byte, 0, size), codecVersion)
	out = binary.AppendUvarint(out, uint64(len(item)))
	for _, attr := range item.Attrs() {
		v := item[attr]
		out = appendString(out, attr)
		out = append(out, byte(v.Kind()))
		switch v.Kind() {
		case op.KindInt:
			out = binary.AppendVarint(out, v.Int())
		case op.KindBytes:
			out = appendString(out, string(v.Bytes()))
		default:
			out = appendString(out, v.Str())
		}
	}
	return out
}

func decodeItem(raw []byte) (op.Item, error) {
	d := decoder{rest: raw}
	if version := d.byte(); d.err == nil && version != codecVersion {
		return nil, fmt.Errorf("%w: version %d", errCodec, version)
	}
	count := d.uvarint()
	if count > uint64(len(raw)) {
		return nil, errCodec
	}
	item := make(op.Item, count)
	previous := ""
	for i := uint64(0); i < count && d.err == nil; i++ {
		attr := d.string()
		if i > 0 && attr <= previous {
			return nil, fmt.Errorf("%w: attributes out of order", errCodec)
		}
		previous = attr
		switch kind := op.Kind(d.byte()); kind {
		case op.KindInt:
			item[attr] = op.N(d.varint())
		case op.KindBytes:
			item[attr] = op.B([]byte(d.string()))
		case op.KindString:
			item[attr] = op.S(d.string())
		default:
			return nil, fmt.Errorf("%w: kind %d", errCodec, kind)
		}
	}
	if d.err == nil && len(d.rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", errCodec, len(d.rest))
	}
	if d.err != nil {
		return nil, d.err
	}
	return item, nil
}

func appendString(out []byte, s string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(s))), s...)
}

// decoder reads the parts of an encoded value; after a fault everything is zero.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.rest) {
		d.err = errCodec
		return nil
	}
	part := d.rest[:n]
	d.rest = d.rest[n:]
	return part
}

func (d *decoder) byte() byte {
	if part := d.take(1); part != nil {
		return part[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.err = errCodec
		return 0
	}
	d.take(size)
	return n
}

func (d *decoder) varint() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.err = errCodec
		return 0
	}
	d.take(size)
	return n
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.err = errCodec
		return ""
	}
	return string(d.take(int(n)))
}
