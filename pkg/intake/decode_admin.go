package intake

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
)

// ReplayRequest is a decoded order to replay.
type ReplayRequest struct {
	Filter events.ReplayFilter
	Rate   float64 // tasks a second
	Limit  int64
	DryRun bool
}

// object reads a body that must be one JSON object.
func object(body []byte) (*decoder, *node, *Refusal) {
	if len(body) > MaxBody {
		return nil, nil, refuse(events.PayloadTooLarge, fmt.Sprintf("the body has %d bytes, at most %d are allowed", len(body), MaxBody))
	}
	root, faults := parseJSON(body)
	d := &decoder{body: body, faults: faults}
	if root == nil {
		return nil, nil, Invalid(d.faults)
	}
	if root.kind != 'o' {
		d.fault("", "must be an object, not "+kindNames[root.kind])
		return nil, nil, Invalid(d.faults)
	}
	return d, root, nil
}

// DecodeTenantRequest reads the body of a tenant's creation or change.
func DecodeTenantRequest(body []byte) (tier string, refusal *Refusal) {
	d, root, refusal := object(body)
	if refusal != nil {
		return "", refusal
	}
	for _, key := range root.keys {
		at := "/" + escapePointer(key)
		if key != "tier" {
			d.fault(at, "is not a known field; known is tier")
			continue
		}
		tier = d.text(root.fields[key], at, maxName)
	}
	if root.fields["tier"] == nil {
		d.fault("/tier", "is required")
	}
	if len(d.faults) > 0 {
		return "", Invalid(d.faults)
	}
	return tier, nil
}

// Bounds of a replay.
const (
	maxReplayRate  = 500
	maxReplayLimit = 1_000_000
)

// DecodeReplayRequest reads the body of an order to replay.
func DecodeReplayRequest(body []byte) (ReplayRequest, *Refusal) {
	req := ReplayRequest{Rate: 1, Limit: 1000}
	d, root, refusal := object(body)
	if refusal != nil {
		return req, refusal
	}
	for _, key := range root.keys {
		v, at := root.fields[key], "/"+escapePointer(key)
		switch key {
		case "filter":
			d.filter(&req.Filter, v, at)
		case "rate":
			f, err := strconv.ParseFloat(v.text, 64)
			if v.kind != 'n' || err != nil || f <= 0 || f > maxReplayRate {
				d.fault(at, fmt.Sprintf("must be a number above 0, at most %d", maxReplayRate))
			}
			req.Rate = f
		case "limit":
			n, err := strconv.ParseFloat(v.text, 64)
			if v.kind != 'n' || err != nil || n < 1 || n > maxReplayLimit || n != float64(int64(n)) {
				d.fault(at, fmt.Sprintf("must be a whole number from 1 to %d", maxReplayLimit))
			} else {
				req.Limit = int64(n)
			}
		case "dry_run":
			if v.kind != 'b' {
				d.fault(at, "must be true or false")
			}
			req.DryRun = string(v.raw(d.body)) == "true"
		default:
			d.fault(at, "is not a known field; known are filter, rate, limit, dry_run")
		}
	}
	if root.fields["filter"] == nil {
		d.fault("/filter", "is required")
	}
	if len(d.faults) > 0 {
		return req, Invalid(d.faults)
	}
	return req, nil
}

func (d *decoder) filter(f *events.ReplayFilter, root *node, at string) {
	if root.kind != 'o' {
		d.fault(at, "must be an object, not "+kindNames[root.kind])
		return
	}
	if len(root.keys) == 0 {
		d.fault(at, "must say which tasks are meant")
	}
	for _, key := range root.keys {
		v, kat := root.fields[key], at+"/"+escapePointer(key)
		var into *string
		var valid func(string) bool
		switch key {
		case "lane":
			into, valid = &f.Lane, ValidName
		case "class":
			into, valid = &f.Class, ValidClass
		case "tenant":
			into, valid = &f.Tenant, ValidName
		case "signature":
			into, valid = &f.Signature, validSignature
		case "min_age_seconds":
			n, err := strconv.ParseFloat(v.text, 64)
			if v.kind != 'n' || err != nil || n < 0 || n > 1e10 {
				d.fault(kat, "must be a number of seconds, 0 or more")
				continue
			}
			f.MinAge = events.Seconds(n * 1000)
			continue
		default:
			d.fault(kat, "is not a known field; known are lane, class, tenant, signature, min_age_seconds")
			continue
		}
		if v.kind != 's' || !valid(v.text) {
			d.fault(kat, "is not the name of a "+key)
			continue
		}
		*into = v.text
	}
}

// FilterFaults judges a filter that came in a query.
func FilterFaults(f events.ReplayFilter, given func(string) bool) []events.FieldError {
	var faults []events.FieldError
	for _, c := range []struct {
		name, value string
		valid       func(string) bool
	}{{"lane", f.Lane, ValidName}, {"class", f.Class, ValidClass}, {"tenant", f.Tenant, ValidName}, {"signature", f.Signature, validSignature}} {
		if given(c.name) && !c.valid(c.value) {
			faults = append(faults, events.FieldError{Pointer: "query:" + c.name, Detail: "is not the name of a " + c.name})
		}
	}
	return faults
}

// ValidName says whether s can be the name of a tenant, lane or tier.
func ValidName(s string) bool { return chars(s, 32, "-") && s[0] >= 'a' && s[0] <= 'z' }

// ValidClass says whether s can be the name of a task class: words joined by dots.
func ValidClass(s string) bool {
	if strings.Contains(s, "..") || strings.HasSuffix(s, ".") {
		return false
	}
	return chars(s, 64, "-_.") && s[0] >= 'a' && s[0] <= 'z'
}

func validSignature(s string) bool { return chars(s, 64, "-_:") }

// chars says whether s has 1 to most of a-z, 0-9 and some others.
func chars(s string, most int, others string) bool {
	if s == "" || len(s) > most {
		return false
	}
	for _, c := range []byte(s) {
		ok := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		for _, o := range []byte(others) {
			ok = ok || c == o
		}
		if !ok {
			return false
		}
	}
	return true
}
