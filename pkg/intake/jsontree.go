package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/events"
)

// maxDepth bounds the nesting of a body. encoding/json would go 10,000 deep.
const maxDepth = 64

// node is a parsed JSON value that keeps what encoding/json throws away: the
// order and repetition of keys, and numbers as they were written.
type node struct {
	kind   byte // 'o'bject, 'a'rray, 's'tring, 'n'umber, 'b'oolean, '0' null
	text   string
	keys   []string
	fields map[string]*node
	items  []*node
	from   int64 // the raw value in the body
	to     int64
}

func (n *node) raw(body []byte) []byte { return bytes.TrimLeft(body[n.from:n.to], " \t\r\n,:") }

var kindNames = map[byte]string{'o': "an object", 'a': "an array", 's': "a string", 'n': "a number", 'b': "a boolean", '0': "null"}

// parseJSON reads one JSON value strictly: valid UTF-8, no duplicate keys, no
// more than maxDepth levels, nothing after it. Duplicate keys are reported with
// their pointers and do not stop it; anything else does.
func parseJSON(body []byte) (*node, []events.FieldError) {
	whole := func(detail string) []events.FieldError { return []events.FieldError{{Pointer: "", Detail: detail}} }
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, whole("the body is empty; a JSON object is required")
	}
	if !utf8.Valid(body) {
		return nil, whole("the body is not valid UTF-8")
	}
	p := &parser{dec: json.NewDecoder(bytes.NewReader(body))}
	p.dec.UseNumber()
	root, err := p.value("", 0)
	if err == nil {
		if _, trailing := p.dec.Token(); !errors.Is(trailing, io.EOF) {
			err = errors.New("there is text after the JSON value")
		}
	}
	if err != nil {
		return nil, whole("not valid JSON: " + safeJSONError(err))
	}
	return root, p.faults
}

// safeJSONError keeps positions and drops quoted input.
func safeJSONError(err error) string {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("syntax error at byte %d", syntax.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	}
	return err.Error()
}

type parser struct {
	dec    *json.Decoder
	faults []events.FieldError
}

func (p *parser) value(pointer string, depth int) (*node, error) {
	from := p.dec.InputOffset()
	tok, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &node{from: from}
	switch v := tok.(type) {
	case nil:
		n.kind = '0'
	case bool:
		n.kind, n.text = 'b', strconv.FormatBool(v)
	case json.Number:
		n.kind, n.text = 'n', v.String()
	case string:
		n.kind, n.text = 's', v
	case json.Delim:
		if depth >= maxDepth {
			return nil, fmt.Errorf("it is nested more than %d levels deep", maxDepth)
		}
		if v == '{' {
			err = p.object(n, pointer, depth)
		} else {
			err = p.array(n, pointer, depth)
		}
		if err != nil {
			return nil, err
		}
	}
	n.to = p.dec.InputOffset()
	return n, nil
}

func (p *parser) object(n *node, pointer string, depth int) error {
	n.kind, n.fields = 'o', map[string]*node{}
	for p.dec.More() {
		tok, err := p.dec.Token()
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return errors.New("an object key is no string")
		}
		at := pointer + "/" + escapePointer(key)
		child, err := p.value(at, depth+1)
		if err != nil {
			return err
		}
		if _, twice := n.fields[key]; twice {
			p.faults = append(p.faults, events.FieldError{Pointer: at, Detail: "the key appears more than once"})
			continue
		}
		n.keys = append(n.keys, key)
		n.fields[key] = child
	}
	_, err := p.dec.Token()
	return err
}

func (p *parser) array(n *node, pointer string, depth int) error {
	n.kind = 'a'
	for p.dec.More() {
		child, err := p.value(pointer+"/"+strconv.Itoa(len(n.items)), depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, child)
	}
	_, err := p.dec.Token()
	return err
}

// escapePointer escapes a key by RFC 6901 and bounds its length.
func escapePointer(key string) string {
	const longest = 100
	if len(key) > longest {
		key = strings.ToValidUTF8(key[:longest], "") + "…"
	}
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// canonical writes a value so that equal values give equal text: keys in
// order, numbers in one form whatever way they were written.
func (n *node) canonical(b *strings.Builder) {
	switch n.kind {
	case 'o':
		keys := append([]string(nil), n.keys...)
		sort.Strings(keys)
		b.WriteByte('{')
		for _, k := range keys {
			b.WriteString(strconv.Quote(k))
			b.WriteByte(':')
			n.fields[k].canonical(b)
			b.WriteByte(',')
		}
		b.WriteByte('}')
	case 'a':
		b.WriteByte('[')
		for _, item := range n.items {
			item.canonical(b)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case 's':
		b.WriteString(strconv.Quote(n.text))
	case 'n':
		b.WriteString(canonicalNumber(n.text))
	case 'b':
		b.WriteString(n.text)
	default:
		b.WriteString("null")
	}
}

// canonicalNumber gives equal numbers equal text, exactly and whatever their
// size: sign, digits without outer zeros, exponent of the last digit.
func canonicalNumber(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	mantissa, expText, _ := strings.Cut(strings.ToLower(s), "e")
	whole, frac, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+frac, "0")
	shift := -len(frac)
	trimmed := strings.TrimRight(digits, "0")
	shift += len(digits) - len(trimmed)
	if trimmed == "" {
		return "0" // −0 is 0
	}
	exp, err := strconv.ParseInt(strings.TrimPrefix(expText, "+"), 10, 64)
	if expText != "" && err != nil {
		return sign + trimmed + "e" + expText // beyond any machine's numbers: equal only if written alike
	}
	return sign + trimmed + "e" + strconv.FormatInt(exp+int64(shift), 10)
}
