package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/policy/internal/shape"
)

// ManyLanes is the number of lanes above which Warnings speaks up.
const ManyLanes = 30

// Warnings are what a valid configuration had better not have, one line each.
func (c *Config) Warnings() []string {
	var w []string
	add := func(format string, args ...any) { w = append(w, fmt.Sprintf(format, args...)) }
	if n := len(c.Lanes); n > ManyLanes {
		add("lanes: %d lanes are more than %d; each costs idle polling, alarms and metrics, and splits the slots further", n, ManyLanes)
	}
	for _, n := range c.LaneNames() {
		if l := c.Lanes[n]; l.SLO.OldestAge < l.SLO.QueueWaitP95 {
			add("%s.slo.oldest_age: %s is under queue_wait_p95 (%s), so it alarms while the lane is within its target",
				shape.Key("lanes", n), l.SLO.OldestAge, l.SLO.QueueWaitP95)
		}
	}
	for _, n := range c.ClassNames() {
		for _, b := range c.Buckets(n) {
			at := shape.Key("classes", n)
			if b.Name != DefaultBucket {
				at += " bucket " + b.Name
			}
			l := c.Lanes[b.Lane]
			if b.Prior.P95 > l.AttemptTimeout {
				add("%s: its prior p95 (%s) is over attempt_timeout of lane %s (%s); only a handler that continues in later attempts can finish",
					at, b.Prior.P95, b.Lane, l.AttemptTimeout)
			}
			if l.Ceiling != nil && b.Prior.P95 > l.Ceiling.P95 {
				add("%s: its prior p95 (%s) is over the ceiling of lane %s (%s); it belongs in a heavier lane",
					at, b.Prior.P95, b.Lane, l.Ceiling.P95)
			}
		}
	}
	plain := len(c.Operators.Keys)
	for _, t := range c.Tenants {
		plain += len(t.Keys)
	}
	if plain > 0 {
		add("tenants, operators: %d keys stand here in plain text; that is for demonstrations and local use", plain)
	}
	return w
}

// NotYetInForce lists the keys of a configuration that ask for something which does not happen yet, one line each:
// the path, where several entries have the key a * and their names, and the reason. A key whose value asks for nothing (rate: 0, brakes: []) is
// not listed.
func NotYetInForce(c *Config) []string {
	l := &laterKeys{lines: map[string]*laterLine{}}
	l.object(shape.Of(reflect.TypeFor[Config]()), reflect.ValueOf(c).Elem(), "", "")
	out := make([]string, 0, len(l.order))
	slices.Sort(l.order)
	for _, p := range l.order {
		x := l.lines[p]
		line := p
		if x.entries[0] != "" {
			line += " (" + shorten(x.entries) + ")"
		}
		out = append(out, line+": "+x.reason)
	}
	return out
}

type laterLine struct {
	entries []string // of the outermost map, "" where there is none
	reason  string
}

type laterKeys struct {
	order []string
	lines map[string]*laterLine
}

// object looks through one object. path has * for the entries of maps and lists; entry is the outermost map's key.
func (l *laterKeys) object(t *shape.Type, v reflect.Value, path, entry string) {
	for i := range t.Fields {
		f := &t.Fields[i]
		fv := v.Field(f.Index)
		if fv.Kind() == reflect.Pointer {
			if fv.IsNil() {
				continue
			}
			fv = fv.Elem()
		}
		at := strings.TrimPrefix(path+"."+f.Name, ".")
		if f.Later != "" {
			if asks(f, fv) {
				l.add(at, entry, f.Later)
			}
			continue
		}
		switch f.Type.Kind {
		case shape.Object:
			l.object(f.Type, fv, at, entry)
		case shape.Map:
			if f.Type.Elem.Kind != shape.Object {
				continue
			}
			for _, k := range fv.MapKeys() {
				name := entry
				if name == "" {
					name = k.String()
				}
				l.object(f.Type.Elem, fv.MapIndex(k).Elem(), at+".*", name)
			}
		case shape.List:
			for j := range fv.Len() {
				if f.Type.Elem.Kind == shape.Object {
					l.object(f.Type.Elem, fv.Index(j).Elem(), at+"[*]", entry)
				}
			}
		}
	}
}

// asks says whether a key that comes later has a value that would do something.
func asks(f *shape.Field, v reflect.Value) bool {
	switch f.Type.Kind {
	case shape.Map, shape.List:
		return v.Len() > 0
	case shape.Object:
		return true
	}
	off := reflect.New(f.Type.Go).Elem()
	if f.Off != "" {
		if err := shape.SetText(f.Type, off, f.Off); err != nil {
			panic("policy: off value of " + f.Name + ": " + err.Error())
		}
	}
	return !v.Equal(off)
}

func (l *laterKeys) add(path, entry, reason string) {
	x := l.lines[path]
	if x == nil {
		x = &laterLine{reason: reason}
		l.lines[path] = x
		l.order = append(l.order, path)
	}
	if !slices.Contains(x.entries, entry) {
		x.entries = append(x.entries, entry)
	}
}

func shorten(names []string) string {
	slices.Sort(names)
	const shown = 6
	if n := len(names); n > shown+1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), n-shown)
	}
	return strings.Join(names, ", ")
}
