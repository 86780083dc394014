package trace

import "strings"

// Context is a W3C trace context: the header traceparent.
type Context struct {
	TraceID string // 32 lower-case hexadecimal digits, not all zero
	SpanID  string // 16 of them, likewise
	Sampled bool
}

// Lengths in hexadecimal digits and bytes (W3C Trace Context, section 3.2).
const (
	traceDigits = 32
	spanDigits  = 16
	headerSize  = 55
)

// Parse reads a traceparent of version 00; ok is false for anything else, which
// is to be treated as no trace at all.
func Parse(traceparent string) (c Context, ok bool) {
	if len(traceparent) != headerSize || !strings.HasPrefix(traceparent, "00-") {
		return c, false
	}
	parts := strings.Split(traceparent, "-")
	if len(parts) != 4 || !id(parts[1], traceDigits) || !id(parts[2], spanDigits) || !digits(parts[3], 2) {
		return c, false
	}
	return Context{TraceID: parts[1], SpanID: parts[2], Sampled: strings.IndexByte("13579bdf", parts[3][1]) >= 0}, true
}

// String is the context as a traceparent.
func (c Context) String() string {
	flags := "-00"
	if c.Sampled {
		flags = "-01"
	}
	return "00-" + c.TraceID + "-" + c.SpanID + flags
}

func id(s string, n int) bool { return digits(s, n) && strings.Trim(s, "0") != "" }

func digits(s string, n int) bool { return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" }
