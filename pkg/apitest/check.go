package apitest

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// contractHeaders are the headers that mean something to a client; where the document does not list one, it must not be.
var contractHeaders = []string{"Location", "Retry-After", "Idempotency-Replayed", "Allow"}

// Validator holds answers against the document. It is safe for concurrent use.
type Validator struct {
	doc      *document
	shared   map[string]*response // components/responses that apply outside of operations
	gateway  *jsonschema.Schema
	statuses []int
	exempt   bool
}

// New compiles the document that this build carries.
func New() (*Validator, error) { return FromDocument(events.OpenAPI) }

// FromDocument compiles another document, such as one with a mistake in it.
func FromDocument(text []byte) (*Validator, error) {
	doc, err := parse(text)
	if err != nil {
		return nil, err
	}
	v := &Validator{doc: doc, shared: map[string]*response{}}
	for _, name := range []string{"NotFound", "MethodNotAllowed", "Unauthenticated"} {
		if v.shared[name], err = doc.component(name); err != nil {
			return nil, err
		}
	}
	info, _ := doc.root["info"].(map[string]any)
	gateway, _ := info["x-gateway-answers"].(map[string]any)
	list, _ := gateway["statuses"].([]any)
	for _, entry := range list {
		object, _ := entry.(map[string]any)
		status, err := strconv.Atoi(fmt.Sprint(object["status"]))
		if err != nil {
			return nil, fmt.Errorf("openapi: x-gateway-answers: %w", err)
		}
		v.statuses = append(v.statuses, status)
	}
	if v.gateway, err = doc.compile("/info/x-gateway-answers/schema"); err != nil {
		return nil, err
	}
	return v, nil
}

// ExemptGateway gives a validator that lets pass the answers which API Gateway makes itself. Only for requests that
// are meant to provoke them: a server must not be able to hide behind that form.
func (v *Validator) ExemptGateway() *Validator {
	c := *v
	c.exempt = true
	return &c
}

// Check holds one answer against the document: path as sent (a query is ignored), the method, and what came back.
// For HEAD the body is not looked at. The error joins all violations and begins with method, path and status.
func (v *Validator) Check(method, path string, status int, header http.Header, body []byte) error {
	path, _, _ = strings.Cut(path, "?")
	if v.exempt && v.isGateway(status, header, body) {
		return nil
	}
	faults := v.faults(method, path, status, header, body)
	if len(faults) == 0 {
		return nil
	}
	for i, f := range faults {
		faults[i] = fmt.Errorf("%s %s → %d: %w", method, path, status, f)
	}
	return errors.Join(faults...)
}

func (v *Validator) isGateway(status int, header http.Header, body []byte) bool {
	if media, _, err := mime.ParseMediaType(header.Get("Content-Type")); err != nil || media != events.MediaJSON {
		return false
	}
	value, err := parseJSON(body)
	return err == nil && slices.Contains(v.statuses, status) && v.gateway.Validate(value) == nil
}

func (v *Validator) faults(method, path string, status int, header http.Header, body []byte) []error {
	route := v.doc.match(path)
	var op *operation
	var want *response
	switch {
	case status == http.StatusUnauthorized && path != "/healthz":
		// Credentials come first, before it is known whether there is such a path.
		want = v.shared["Unauthenticated"]
	case route == nil:
		if status != http.StatusNotFound {
			return []error{errors.New("the path is not documented: only 404 may answer it")}
		}
		want = v.shared["NotFound"]
	case route.ops[method] == nil:
		if status == http.StatusNotFound && route.later() {
			want = v.shared["NotFound"]
			break
		}
		if status != http.StatusMethodNotAllowed {
			return []error{errors.New("the method is not documented: only 405 may answer it")}
		}
		want = v.shared["MethodNotAllowed"]
	default:
		op = route.ops[method]
		want = op.responses[status]
		if want == nil && op.later && status == http.StatusNotFound {
			want = v.shared["NotFound"]
		}
		if want == nil {
			return []error{fmt.Errorf("the status is not documented for %s", op.id)}
		}
	}
	faults := checkHeaders(want, header)
	if status == http.StatusMethodNotAllowed && route != nil {
		faults = append(faults, checkAllow(route, header.Get("Allow"))...)
	}
	if method == http.MethodHead {
		return faults
	}
	value, more := checkBody(want, header, body)
	faults = append(faults, more...)
	if object, ok := value.(map[string]any); ok {
		faults = append(faults, rules(op, path, status, header, object)...)
	}
	return faults
}

// later reports whether every operation of the route is one that is not yet served.
func (r *route) later() bool {
	for _, op := range r.ops {
		if !op.later {
			return false
		}
	}
	return true
}

func checkAllow(r *route, allow string) []error {
	got := strings.Split(allow, ", ")
	slices.Sort(got)
	if !slices.Equal(got, r.allowed) {
		return []error{fmt.Errorf("header Allow is %q, documented are %s", allow, strings.Join(r.allowed, ", "))}
	}
	return nil
}

func checkHeaders(want *response, got http.Header) []error {
	var faults []error
	for name, h := range want.headers {
		values := got.Values(name)
		switch {
		case len(values) == 0:
			if h.required {
				faults = append(faults, fmt.Errorf("header %s is missing", name))
			}
			continue
		case len(values) > 1:
			faults = append(faults, fmt.Errorf("header %s is there %d times", name, len(values)))
		}
		var value any = values[0]
		if h.integer {
			n, err := strconv.ParseInt(values[0], 10, 64)
			if err != nil || strconv.FormatInt(n, 10) != values[0] {
				faults = append(faults, fmt.Errorf("header %s: %q is not a whole number", name, values[0]))
				continue
			}
			value = n
		}
		if err := h.schema.Validate(value); err != nil {
			faults = append(faults, fmt.Errorf("header %s: %s", name, flat(err)))
		}
	}
	for _, name := range contractHeaders {
		if len(got.Values(name)) > 0 && want.headers[name] == nil {
			faults = append(faults, fmt.Errorf("header %s is not documented for this answer", name))
		}
	}
	return faults
}

// checkBody gives the parsed body, nil if there is none or it is not JSON.
func checkBody(want *response, header http.Header, body []byte) (any, []error) {
	if len(want.media) == 0 {
		if len(body) > 0 {
			return nil, []error{errors.New("there is a body, none is documented")}
		}
		return nil, nil
	}
	media, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return nil, []error{fmt.Errorf("Content-Type %q: %w", header.Get("Content-Type"), err)}
	}
	schema := want.media[media]
	if schema == nil {
		return nil, []error{fmt.Errorf("media type %s is not documented for this answer", media)}
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return nil, []error{fmt.Errorf("charset %s: JSON is UTF-8", charset)}
	}
	if !utf8.Valid(body) { // parsers mend it silently
		return nil, []error{errors.New("the body is not UTF-8")}
	}
	if twice := scan(body).twice; len(twice) > 0 {
		return nil, []error{fmt.Errorf("key %s is there twice", strings.Join(twice, ", "))}
	}
	value, err := parseJSON(body)
	if err != nil {
		return nil, []error{fmt.Errorf("the body is not JSON: %w", err)}
	}
	if err := schema.Validate(value); err != nil {
		return value, []error{fmt.Errorf("body: %s", flat(err))}
	}
	return value, nil
}

// flat puts a schema's complaint on one line, without the addresses of schemas.
func flat(err error) string {
	var failed *jsonschema.ValidationError
	if !errors.As(err, &failed) {
		return err.Error()
	}
	var lines []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			line := fmt.Sprintf("/%s: %s", strings.Join(e.InstanceLocation, "/"), e.ErrorKind.LocalizedString(printer))
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(failed)
	return strings.Join(lines, "; ")
}
