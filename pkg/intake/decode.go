package intake

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

// MaxPayload and MaxBody are the largest payload and body, in bytes.
const (
	MaxPayload = 256 << 10
	MaxBody    = 1 << 20
)

// Submission is what a client asks for, as it was decoded.
type Submission struct {
	Class          string
	Payload        string // compact JSON, "" when absent
	DeadlineMS     int64  // 0: none given
	Priority       string // "" : the class's default
	Hints          map[string]int64
	OrderingKey    string
	IdempotencyKey string
	Traceparent    string
	RequestHash    string // of the parsed body: equal JSON, equal hash
}

// Header is what a submission carries beside its body.
type Header struct {
	IdempotencyKey    string
	HasIdempotencyKey bool
	Traceparent       string
}

const (
	maxName        = 64
	maxOrderingKey = 255
	maxHints       = 16
	maxHintValue   = 1<<53 - 1
)

// Decode reads a submission's body. All faults are returned together in one
// refusal; what depends on the configuration is judged later, see prepare.
func Decode(body []byte, h Header, cfg *policy.Config) (Submission, *Refusal) {
	var s Submission
	if len(body) > MaxBody {
		return s, refuse(events.PayloadTooLarge, fmt.Sprintf("the body has %d bytes, at most %d are allowed", len(body), MaxBody))
	}
	d := decoder{body: body}
	root, faults := parseJSON(body)
	d.faults = faults
	d.header(&s, h)
	if root != nil {
		if root.kind != 'o' {
			d.fault("", "must be an object, not "+kindNames[root.kind])
		} else {
			d.submission(&s, root, cfg)
		}
	}
	if len(d.faults) > 0 {
		return s, Invalid(d.faults)
	}
	if len(s.Payload) > MaxPayload {
		return s, refuse(events.PayloadTooLarge, fmt.Sprintf("the payload has %d bytes, at most %d are allowed", len(s.Payload), MaxPayload))
	}
	var b strings.Builder
	root.canonical(&b)
	sum := sha256.Sum256([]byte(b.String()))
	s.RequestHash = base64.RawURLEncoding.EncodeToString(sum[:16])
	return s, nil
}

// Invalid is the refusal of a request with faults, in order of their places.
func Invalid(faults []events.FieldError) *Refusal {
	sort.SliceStable(faults, func(i, j int) bool { return faults[i].Pointer < faults[j].Pointer })
	const most = 100
	if len(faults) > most {
		faults = faults[:most]
	}
	detail := "the request has one fault"
	if n := len(faults); n > 1 {
		detail = fmt.Sprintf("the request has %d faults", n)
	}
	return &Refusal{Code: events.InvalidRequest, Detail: detail, Faults: faults}
}

type decoder struct {
	body   []byte
	faults []events.FieldError
}

func (d *decoder) fault(pointer, detail string) {
	d.faults = append(d.faults, events.FieldError{Pointer: pointer, Detail: detail})
}

func (d *decoder) header(s *Submission, h Header) {
	s.Traceparent = h.Traceparent
	if !h.HasIdempotencyKey {
		return
	}
	s.IdempotencyKey = h.IdempotencyKey
	if len(h.IdempotencyKey) < 1 || len(h.IdempotencyKey) > 255 || strings.IndexFunc(h.IdempotencyKey, func(r rune) bool { return r < 0x20 || r > 0x7e }) >= 0 {
		d.fault("header:Idempotency-Key", "must be 1 to 255 printable ASCII characters")
	}
}

func (d *decoder) submission(s *Submission, root *node, cfg *policy.Config) {
	for _, key := range root.keys {
		v, at := root.fields[key], "/"+escapePointer(key)
		switch key {
		case "class":
			s.Class = d.text(v, at, maxName)
		case "payload":
			var compact bytes.Buffer
			if err := json.Compact(&compact, v.raw(d.body)); err != nil {
				d.fault(at, "is not valid JSON")
			}
			s.Payload = compact.String()
		case "deadline_seconds":
			s.DeadlineMS = d.deadline(v, at, cfg.MaxDeadline().MS())
		case "priority":
			s.Priority = d.text(v, at, maxName)
			if s.Priority != "" && policy.PriorityRank(s.Priority) < 0 {
				d.fault(at, "must be one of critical, high, normal, low")
			}
		case "hints":
			s.Hints = d.hints(v, at)
		case "ordering_key":
			s.OrderingKey = d.text(v, at, maxOrderingKey)
		default:
			d.fault(at, "is not a known field; known are class, payload, deadline_seconds, priority, hints, ordering_key")
		}
	}
	if root.fields["class"] == nil {
		d.fault("/class", "is required")
	}
}

// text reads a string of 1 to longest characters.
func (d *decoder) text(v *node, at string, longest int) string {
	if v.kind != 's' {
		d.fault(at, "must be a string, not "+kindNames[v.kind])
		return ""
	}
	if n := len([]rune(v.text)); n < 1 || n > longest {
		d.fault(at, fmt.Sprintf("must have 1 to %d characters", longest))
		return ""
	}
	if strings.IndexFunc(v.text, control) >= 0 {
		d.fault(at, "must not contain control characters")
		return ""
	}
	return v.text
}

func control(r rune) bool { return r < 0x20 || r == 0x7f }

func (d *decoder) deadline(v *node, at string, maxMS int64) int64 {
	if v.kind != 'n' {
		d.fault(at, "must be a number of seconds, not "+kindNames[v.kind])
		return 0
	}
	f, err := strconv.ParseFloat(v.text, 64)
	ms := math.Round(f * 1000)
	switch {
	case f < 0.001: // −∞ for what is below all floats, 0 for what is too small for one
		d.fault(at, "must be at least 0.001 seconds")
	case err != nil || f*1000 > float64(maxMS): // not ms: a fraction that is rounded away is too much all the same
		d.fault(at, fmt.Sprintf("must be at most %d seconds", maxMS/1000))
	default:
		return int64(ms)
	}
	return 0
}

func (d *decoder) hints(v *node, at string) map[string]int64 {
	if v.kind != 'o' {
		d.fault(at, "must be an object of numbers, not "+kindNames[v.kind])
		return nil
	}
	if len(v.keys) > maxHints {
		d.fault(at, fmt.Sprintf("has %d hints, at most %d are allowed", len(v.keys), maxHints))
	}
	out := make(map[string]int64, len(v.keys))
	for _, key := range v.keys {
		if n := len([]rune(key)); n < 1 || n > maxName || strings.IndexFunc(key, control) >= 0 {
			d.fault(at, fmt.Sprintf("names of hints must have 1 to %d characters, no control characters", maxName)) // it is not repeated: it may be long
			continue
		}
		h, hat := v.fields[key], at+"/"+escapePointer(key)
		if h.kind != 'n' {
			d.fault(hat, "must be a number, not "+kindNames[h.kind])
			continue
		}
		f, err := strconv.ParseFloat(h.text, 64)
		if err != nil || f < 0 || f > maxHintValue || f != math.Trunc(f) {
			d.fault(hat, "must be a whole number from 0 to 2^53 − 1")
			continue
		}
		out[key] = int64(f)
	}
	return out
}
