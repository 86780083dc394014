package apitest

import (
	"slices"
	"strings"
)

// Operation is a call that the document has.
type Operation struct {
	Method, Path string // a path's parameters in braces
	Later        bool   // specified and not yet served
}

// Operations are all calls of the document, by path and method.
func (v *Validator) Operations() []Operation {
	var list []Operation
	for _, r := range v.doc.routes {
		for method, op := range r.ops {
			list = append(list, Operation{method, strings.Join(r.segments, "/"), op.later})
		}
	}
	slices.SortFunc(list, func(a, b Operation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	return list
}
