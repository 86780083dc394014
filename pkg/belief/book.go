// Package belief holds what is believed of each (class, bucket): its estimate
// in force and where it runs. A [Book] is immutable; it begins with the
// configuration's priors and is overlaid by what the aggregator published.
package belief

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"sort"

	"github.com/lanekeeper/lanekeeper/pkg/estimate"
	"github.com/lanekeeper/lanekeeper/pkg/placement"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

// Kind names a (class, bucket).
type Kind struct{ Class, Bucket string }

// Entry is what the configuration says of a kind.
type Entry struct {
	Kind   Kind
	Ladder []policy.Rung // its own lane, then those that it may move to
	Prior  estimate.Prior
	CapMS  int64
}

// Book is the estimates and lanes in force.
type Book struct {
	entries []Entry
	index   map[Kind]int // of entries
	now     map[Kind]*estimate.Estimate
	places  map[Kind]placement.State // those that are not zero
}

// FromConfig is the book of priors.
func FromConfig(cfg *policy.Config) *Book {
	b := newBook()
	for _, name := range cfg.ClassNames() {
		for _, bucket := range cfg.Buckets(name) {
			b.add(Kind{name, bucket.Name}, cfg.Ladder(name, bucket.Name), bucket.Prior, bucket.Cap)
		}
	}
	return b.inOrder()
}

func newBook() *Book {
	return &Book{index: map[Kind]int{}, now: map[Kind]*estimate.Estimate{}, places: map[Kind]placement.State{}}
}

// inOrder sorts what was added, after which it can be found.
func (b *Book) inOrder() *Book {
	sort.Slice(b.entries, func(i, j int) bool {
		a, c := b.entries[i].Kind, b.entries[j].Kind
		return a.Class < c.Class || a.Class == c.Class && a.Bucket < c.Bucket
	})
	for i := range b.entries {
		b.index[b.entries[i].Kind] = i
	}
	return b
}

func (b *Book) add(k Kind, ladder []policy.Rung, p policy.Prior, limit policy.Duration) {
	prior := estimate.Prior{P50MS: p.P50.MS(), P95MS: p.P95.MS()}
	e := estimate.FromPrior(prior, limit.MS())
	b.entries = append(b.entries, Entry{Kind: k, Ladder: ladder, Prior: prior, CapMS: limit.MS()})
	b.now[k] = &e
}

// Entries are all kinds, in order of their names.
func (b *Book) Entries() []Entry { return b.entries }

// Get returns the estimate of a kind, nil when the configuration does not have it
// (a class that was removed while tasks of it were under way).
func (b *Book) Get(class, bucket string) *estimate.Estimate { return b.now[Kind{class, bucket}] }

// Place is what is remembered of where a kind runs, as it holds under the configuration.
func (b *Book) Place(k Kind) placement.State { return b.places[k] }

// Lane is where tasks of a kind are placed now, "" when the configuration does not
// have it. In which lane a tenant's run then is a matter of its tier: see
// policy.Config.LaneFor.
func (b *Book) Lane(class, bucket string) string {
	k := Kind{class, bucket}
	e := b.entry(k)
	if e == nil {
		return ""
	}
	return placement.LaneOf(e.Ladder, b.places[k])
}

// entry is what the configuration says of a kind, nil when it does not have it.
func (b *Book) entry(k Kind) *Entry {
	i, known := b.index[k]
	if !known {
		return nil
	}
	return &b.entries[i]
}

// With returns a book with some estimates and places replaced; kinds that the
// configuration does not have are left out, and places that it does not allow.
func (b *Book) With(updates map[Kind]estimate.Estimate, places map[Kind]placement.State) *Book {
	out := &Book{entries: b.entries, index: b.index, now: maps.Clone(b.now), places: maps.Clone(b.places)}
	for k, e := range updates {
		if entry := b.entry(k); entry != nil {
			if !e.Known() { // what is not known must not be had for nothing
				e = estimate.Worst(entry.CapMS)
			}
			out.now[k] = &e
		}
	}
	for k, s := range places {
		if entry := b.entry(k); entry != nil {
			s = placement.Settle(entry.Ladder, s)
			if s != (placement.State{}) {
				out.places[k] = s
				continue
			}
		}
		delete(out.places, k)
	}
	return out
}

// partKinds is how many kinds one published part holds, give or take what the hash makes of it: below 500 bytes each with the
// longest names, below the 400 KB an item may have.
const partKinds = 750

// Parts is how many parts the book is published in.
func (b *Book) Parts() int { return 1 + len(b.entries)/partKinds }

// PartOf is the part that a kind is published in.
func (b *Book) PartOf(k Kind) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.Class + "|" + k.Bucket))
	return int(h.Sum32() % uint32(b.Parts())) //nolint:gosec // Parts is small and positive
}

type published struct {
	Class    string            `json:"c"`
	Bucket   string            `json:"b"`
	Estimate estimate.Estimate `json:"e"`
	Place    *placement.State  `json:"p,omitempty"`
}

// Encode is the body of one part: what is learned, of estimates and lanes.
func (b *Book) Encode(part int) []byte {
	list := []published{}
	for _, entry := range b.entries {
		e, place := b.now[entry.Kind], b.places[entry.Kind]
		if b.PartOf(entry.Kind) != part || !e.Learned && place == (placement.State{}) {
			continue
		}
		p := published{Class: entry.Kind.Class, Bucket: entry.Kind.Bucket, Estimate: *e}
		if place != (placement.State{}) {
			p.Place = &place
		}
		list = append(list, p)
	}
	body, err := json.Marshal(list)
	if err != nil {
		panic("belief: " + err.Error()) // whole numbers and strings
	}
	return body
}

// Overlay returns the book with a published part laid over it.
func (b *Book) Overlay(body []byte) (*Book, error) {
	var list []published
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("belief: published estimates: %w", err)
	}
	updates, places := make(map[Kind]estimate.Estimate, len(list)), map[Kind]placement.State{}
	for _, p := range list {
		k := Kind{p.Class, p.Bucket}
		if p.Estimate.Learned { // else the configuration's prior is the newer one
			updates[k] = p.Estimate
		}
		if p.Place != nil {
			places[k] = *p.Place
		}
	}
	return b.With(updates, places), nil
}
