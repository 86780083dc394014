// Package belief holds what is believed of each (class, bucket): its estimate
// in force and where it runs. A [Book] is immutable; it begins with the
// configuration's priors and is overlaid by what the aggregator published.
package belief

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"sort"

	"github.com/lanekeeper/lanekeeper/pkg/estimate"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

// Kind names a (class, bucket).
type Kind struct{ Class, Bucket string }

// Entry is what the configuration says of a kind.
type Entry struct {
	Kind  Kind
	Lane  string
	Prior estimate.Prior
	CapMS int64
}

// Book is the estimates in force.
type Book struct {
	entries []Entry
	now     map[Kind]*estimate.Estimate
}

// FromConfig is the book of priors.
func FromConfig(cfg *policy.Config) *Book {
	b := &Book{now: map[Kind]*estimate.Estimate{}}
	for _, name := range cfg.ClassNames() {
		for _, bucket := range cfg.Buckets(name) {
			b.add(Kind{name, bucket.Name}, bucket.Lane, bucket.Prior, bucket.Cap)
		}
	}
	sort.Slice(b.entries, func(i, j int) bool {
		a, c := b.entries[i].Kind, b.entries[j].Kind
		return a.Class < c.Class || a.Class == c.Class && a.Bucket < c.Bucket
	})
	return b
}

func (b *Book) add(k Kind, lane string, p policy.Prior, limit policy.Duration) {
	prior := estimate.Prior{P50MS: p.P50.MS(), P95MS: p.P95.MS()}
	e := estimate.FromPrior(prior, limit.MS())
	b.entries = append(b.entries, Entry{Kind: k, Lane: lane, Prior: prior, CapMS: limit.MS()})
	b.now[k] = &e
}

// Entries are all kinds, in order of their names.
func (b *Book) Entries() []Entry { return b.entries }

// Get returns the estimate of a kind, nil when the configuration does not have it
// (a class that was removed while tasks of it were under way).
func (b *Book) Get(class, bucket string) *estimate.Estimate { return b.now[Kind{class, bucket}] }

// With returns a book with some estimates replaced; kinds that the
// configuration does not have are left out.
func (b *Book) With(updates map[Kind]estimate.Estimate) *Book {
	out := &Book{entries: b.entries, now: make(map[Kind]*estimate.Estimate, len(b.now))}
	for k, e := range b.now {
		out.now[k] = e
	}
	for k, e := range updates {
		if _, known := b.now[k]; known {
			out.now[k] = &e
		}
	}
	return out
}

// partKinds is how many kinds one published part holds: about 200 bytes each,
// far below the 400 KB an item may have.
const partKinds = 1000

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
}

// Encode is the body of one part: learned estimates only.
func (b *Book) Encode(part int) []byte {
	list := []published{}
	for _, entry := range b.entries {
		if e := b.now[entry.Kind]; e.Learned && b.PartOf(entry.Kind) == part {
			list = append(list, published{entry.Kind.Class, entry.Kind.Bucket, *e})
		}
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
	updates := make(map[Kind]estimate.Estimate, len(list))
	for _, p := range list {
		updates[Kind{p.Class, p.Bucket}] = p.Estimate
	}
	return b.With(updates), nil
}
