package apitest

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// parseJSON reads one JSON value for a schema to judge. A number that no machine can hold becomes a text, which fails
// wherever a number is wanted: the schema library would work it out digit by digit, or panic.
func parseJSON(text []byte) (any, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return bounded(value), nil
}

func bounded(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = bounded(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = bounded(inner)
		}
	case json.Number:
		_, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
		f, err := v.Float64()
		if err != nil || math.IsInf(f, 0) || len(exponent) > 4 || len(v) > 400 {
			return "a number out of range"
		}
	}
	return value
}

// scanned is what a parser into maps throws away.
type scanned struct {
	twice []string // JSON Pointers of keys that are there a second time
	depth int      // levels of nesting
}

// level is one open object or array.
type level struct {
	keys  map[string]bool // nil in an array
	isKey bool            // the next token is a key
	at    string          // pointer token of the value that is being read
	index int             // of that value, in an array
}

// scan walks a JSON text. Where it is not JSON it stops: that is left to the parser.
func scan(text []byte) scanned {
	var out scanned
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var stack []level
	for {
		token, err := dec.Token()
		if err != nil {
			return out
		}
		if top := len(stack) - 1; top >= 0 && stack[top].isKey {
			if name, ok := token.(string); ok {
				l := &stack[top]
				l.at, l.isKey = strings.NewReplacer("~", "~0", "/", "~1").Replace(name), false
				if l.keys[name] {
					out.twice = append(out.twice, pointer(stack))
				}
				l.keys[name] = true
				continue
			}
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, level{keys: map[string]bool{}, isKey: true})
			out.depth = max(out.depth, len(stack))
			continue
		case json.Delim('['):
			stack = append(stack, level{at: "0"})
			out.depth = max(out.depth, len(stack))
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
		// A value ended: inside an object a key comes next, inside an array the next item.
		if top := len(stack) - 1; top >= 0 {
			if l := &stack[top]; l.keys != nil {
				l.isKey = true
			} else {
				l.index++
				l.at = strconv.Itoa(l.index)
			}
		}
	}
}

func pointer(stack []level) string {
	var b strings.Builder
	for i := range stack {
		b.WriteByte('/')
		b.WriteString(stack[i].at)
	}
	return b.String()
}
