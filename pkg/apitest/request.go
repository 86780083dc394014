package apitest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxDepth is the nesting that the document allows a request's body.
const maxDepth = 64

// BodyFaults holds a request's body against the document and gives its faults by pointer, none if it is right: what a
// server has to answer with 400 at least. Only the configuration can know more (classes, bounds of hints, priorities).
func (v *Validator) BodyFaults(method, path string, body []byte) ([]events.FieldError, error) {
	r := v.doc.match(path)
	if r == nil || r.ops[method] == nil || r.ops[method].request == nil {
		return nil, fmt.Errorf("%s %s has no documented body", method, path)
	}
	whole := func(detail string) []events.FieldError { return []events.FieldError{{Pointer: "", Detail: detail}} }
	if !utf8.Valid(body) {
		return whole("is not UTF-8"), nil
	}
	s := scan(body)
	if s.depth > maxDepth {
		return whole("is nested too deeply"), nil
	}
	value, err := parseJSON(body)
	if err != nil {
		return whole("is not JSON"), nil
	}
	var faults []events.FieldError
	for _, p := range s.twice {
		faults = append(faults, events.FieldError{Pointer: p, Detail: "is there twice"})
	}
	var failed *jsonschema.ValidationError
	if errors.As(r.ops[method].request.Validate(value), &failed) {
		faults = append(faults, leaves(failed)...)
	}
	slices.SortFunc(faults, func(a, b events.FieldError) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Detail, b.Detail))
	})
	return slices.Compact(faults), nil
}

// leaves are the single complaints of a schema, each at the place of the value that is wrong, missing or too much.
func leaves(e *jsonschema.ValidationError) []events.FieldError {
	if len(e.Causes) > 0 {
		var all []events.FieldError
		for _, cause := range e.Causes {
			all = append(all, leaves(cause)...)
		}
		return all
	}
	at := func(more ...string) string {
		var b strings.Builder
		for _, token := range slices.Concat(e.InstanceLocation, more) {
			b.WriteByte('/')
			b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
		}
		return b.String()
	}
	var all []events.FieldError
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			all = append(all, events.FieldError{Pointer: at(name), Detail: "is required"})
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			all = append(all, events.FieldError{Pointer: at(name), Detail: "is not a known field"})
		}
	default:
		all = append(all, events.FieldError{Pointer: at(), Detail: e.ErrorKind.LocalizedString(printer)})
	}
	return all
}
