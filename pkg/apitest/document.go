package apitest

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// base is the address under which the document's schemas refer to each other; nothing is ever loaded from it.
const base = "https://lanekeeper.invalid/openapi.yaml"

// methods are the keys of a path item that are operations.
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// document is the parsed OpenAPI document, as plain JSON values, with its schemas compiled.
type document struct {
	root    map[string]any
	schemas *jsonschema.Compiler
	routes  []route
}

// route is one path of the document.
type route struct {
	segments []string // "{name}" matches any one non-empty segment
	ops      map[string]*operation
	allowed  []string // methods, sorted
}

// operation is one method of one path.
type operation struct {
	id        string
	later     bool               // specified, not yet served
	request   *jsonschema.Schema // of its JSON body; nil without one
	responses map[int]*response
}

// response is one documented answer.
type response struct {
	headers map[string]*header // by canonical name
	media   map[string]*jsonschema.Schema
}

type header struct {
	required bool
	integer  bool
	schema   *jsonschema.Schema
}

// parse reads an OpenAPI 3.1 document and compiles every schema that an answer can be held against.
func parse(text []byte) (*document, error) {
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	root, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("openapi: not an object")
	}
	d := &document{root: root, schemas: jsonschema.NewCompiler()}
	d.schemas.DefaultDraft(jsonschema.Draft2020)
	d.schemas.AssertFormat()
	if err := d.schemas.AddResource(base, root); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	paths, _ := root["paths"].(map[string]any)
	for path, item := range paths {
		r, err := d.route(path, item)
		if err != nil {
			return nil, fmt.Errorf("openapi: %s: %w", path, err)
		}
		d.routes = append(d.routes, r)
	}
	if len(d.routes) == 0 {
		return nil, fmt.Errorf("openapi: no paths")
	}
	return d, nil
}

func (d *document) route(path string, value any) (route, error) {
	item, pointer, err := d.resolve(value, "/paths/"+escape(path))
	if err != nil {
		return route{}, err
	}
	r := route{segments: strings.Split(path, "/"), ops: map[string]*operation{}}
	for _, m := range methods {
		raw, ok := item[m].(map[string]any)
		if !ok {
			continue
		}
		op := &operation{responses: map[int]*response{}}
		op.id, _ = raw["operationId"].(string)
		op.later = raw["x-lanekeeper-status"] == "later"
		if body, ok := raw["requestBody"]; ok {
			if _, at, err := d.resolve(body, pointer+"/"+m+"/requestBody"); err != nil {
				return route{}, err
			} else if op.request, err = d.compile(at + "/content/application~1json/schema"); err != nil {
				return route{}, err
			}
		}
		responses, _ := raw["responses"].(map[string]any)
		for status, v := range responses {
			code, err := strconv.Atoi(status)
			if err != nil {
				return route{}, fmt.Errorf("%s: status %q is not a number", m, status)
			}
			if op.responses[code], err = d.response(v, pointer+"/"+m+"/responses/"+status); err != nil {
				return route{}, fmt.Errorf("%s %s: %w", m, status, err)
			}
		}
		r.ops[strings.ToUpper(m)] = op
		r.allowed = append(r.allowed, strings.ToUpper(m))
	}
	slices.Sort(r.allowed)
	return r, nil
}

// component is the documented answer of this name under components/responses.
func (d *document) component(name string) (*response, error) {
	return d.response(map[string]any{"$ref": "#/components/responses/" + name}, "")
}

func (d *document) response(value any, pointer string) (*response, error) {
	raw, pointer, err := d.resolve(value, pointer)
	if err != nil {
		return nil, err
	}
	out := &response{headers: map[string]*header{}, media: map[string]*jsonschema.Schema{}}
	headers, _ := raw["headers"].(map[string]any)
	for name, v := range headers {
		h, at, err := d.resolve(v, pointer+"/headers/"+escape(name))
		if err != nil {
			return nil, err
		}
		entry := &header{}
		entry.required, _ = h["required"].(bool)
		if schema, ok := h["schema"].(map[string]any); ok {
			entry.integer = schema["type"] == "integer"
		}
		if entry.schema, err = d.compile(at + "/schema"); err != nil {
			return nil, err
		}
		out.headers[http.CanonicalHeaderKey(name)] = entry
	}
	content, _ := raw["content"].(map[string]any)
	for media := range content {
		if out.media[media], err = d.compile(pointer + "/content/" + escape(media) + "/schema"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (d *document) compile(pointer string) (*jsonschema.Schema, error) {
	return d.schemas.Compile(base + "#" + pointer)
}

// resolve follows $ref of the objects around schemas (responses, headers), which JSON Schema knows nothing of.
func (d *document) resolve(value any, pointer string) (map[string]any, string, error) {
	for range 8 {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, "", fmt.Errorf("%s is not an object", pointer)
		}
		ref, ok := object["$ref"].(string)
		if !ok {
			return object, pointer, nil
		}
		if !strings.HasPrefix(ref, "#/") {
			return nil, "", fmt.Errorf("%s: reference %q leads outside", pointer, ref)
		}
		pointer = ref[1:]
		value = d.root
		for _, part := range strings.Split(pointer[1:], "/") {
			in, _ := value.(map[string]any)
			if value, ok = in[unescape(part)]; !ok {
				return nil, "", fmt.Errorf("reference %q leads nowhere", ref)
			}
		}
	}
	return nil, "", fmt.Errorf("%s: references run in a circle", pointer)
}

// match finds the route of a path as sent (escaped, without query).
func (d *document) match(path string) *route {
	segments := strings.Split(path, "/")
	for i := range d.routes {
		r := &d.routes[i]
		if len(r.segments) != len(segments) {
			continue
		}
		if slices.EqualFunc(r.segments, segments, func(want, got string) bool {
			return want == got || strings.HasPrefix(want, "{") && got != ""
		}) {
			return r
		}
	}
	return nil
}

// escape makes a JSON Pointer token fit for a URL fragment.
func escape(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
	return strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D", "+", "%2B").Replace(s)
}

func unescape(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}
