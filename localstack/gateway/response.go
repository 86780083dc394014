package gateway

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// response is a function's answer, understood.
type response struct {
	status  int
	headers map[string]string
	cookies []string
	body    []byte
}

// decodeResponse reads an answer of payload format 2.0. An answer without
// statusCode is inferred: 200, application/json, and the answer itself as body
// (a JSON string without its quotes). Invalid JSON is passed on in the same way,
// as AWS was observed to do against its documentation.
func decodeResponse(out []byte) (*response, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(out, &fields); err != nil || fields["statusCode"] == nil {
		body := out
		var text string
		if json.Unmarshal(out, &text) == nil && !bytes.Equal(bytes.TrimSpace(out), []byte("null")) {
			body = []byte(text)
		}
		return &response{
			status:  http.StatusOK,
			headers: map[string]string{"Content-Type": "application/json"},
			body:    body,
		}, nil
	}
	r := &response{headers: map[string]string{}}
	var errs []error
	status, err := decodeStatus(fields["statusCode"])
	r.status = status
	errs = append(errs, err)

	var headers map[string]any
	errs = append(errs, decodeField(fields, "headers", &headers))
	for name, value := range headers {
		text, err := scalar(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("header %q: %w", name, err))
			continue
		}
		r.headers[name] = text
	}
	errs = append(errs, decodeField(fields, "cookies", &r.cookies))

	var body string
	var encoded bool
	errs = append(errs, decodeField(fields, "body", &body), decodeField(fields, "isBase64Encoded", &encoded))
	r.body = []byte(body)
	if encoded {
		r.body, err = base64.StdEncoding.DecodeString(body)
		errs = append(errs, err)
	}
	return r, errors.Join(errs...)
}

func decodeField(fields map[string]json.RawMessage, name string, into any) error {
	raw, ok := fields[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// decodeStatus takes a number or a string of digits, 200 to 599.
func decodeStatus(raw json.RawMessage) (int, error) {
	text := strings.Trim(string(raw), `"`)
	status, err := strconv.Atoi(text)
	if err != nil || status < 200 || status > 599 {
		return 0, fmt.Errorf("statusCode %s is no final HTTP status", raw)
	}
	return status, nil
}

func scalar(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return "", fmt.Errorf("a value of type %T", v)
}

func (r *response) write(w http.ResponseWriter) {
	h := w.Header()
	// In order, so that of two spellings of one name always the same one wins.
	for _, name := range slices.Sorted(maps.Keys(r.headers)) {
		value := r.headers[name]
		if lower := strings.ToLower(name); !hopByHop[lower] && lower != "content-length" {
			h.Set(name, value)
		}
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/plain; charset=utf-8") // the gateway's default
	}
	for _, c := range r.cookies {
		h.Add("Set-Cookie", c)
	}
	bodyless := r.status == http.StatusNoContent || r.status == http.StatusNotModified
	if !bodyless {
		h.Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	w.WriteHeader(r.status)
	if !bodyless {
		_, _ = w.Write(r.body) // a client that went away is no fault of ours
	}
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
