package policy

import (
	"errors"
	"maps"
	"slices"
	"time"
)

// index is what the accessors look up, built once.
type index struct {
	laneNames, classNames, tierNames, tenantNames []string
	retry                                         string
	figures                                       map[string]figures
	buckets                                       map[string][]BucketSpec
	labels                                        map[string]bool
	standIns                                      map[string]map[string]string // see placing.go, as what follows
	ladders                                       map[string]map[string][]Rung
	lanesOf                                       map[string][]string
}

type figures struct {
	workers, slots              int
	functionTimeout, visibility Duration
}

// BucketSpec is a bucket with everything its class supplies filled in.
type BucketSpec struct {
	Name  string
	From  int64 // the smallest hint that falls into it
	Lane  string
	Prior Prior
	Cap   Duration
}

// DefaultBucket is the only bucket of a class without sizes.
const DefaultBucket = "default"

// ErrUnknownClass is returned for a class that the configuration does not have.
var ErrUnknownClass = errors.New("unknown class")

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (c *Config) buildIndex() {
	ix := &index{laneNames: keys(c.Lanes), classNames: keys(c.Classes), tierNames: keys(c.Tiers), tenantNames: keys(c.Tenants),
		figures: map[string]figures{}, buckets: map[string][]BucketSpec{}, labels: map[string]bool{}}
	for n, l := range c.Lanes {
		f := figures{workers: l.Workers.MaxConcurrency}
		if l.Role == RoleRetry {
			ix.retry = n
			f.workers = c.retryWorkers(l)
		}
		f.slots = f.workers * l.Batch.Size
		f.functionTimeout = functionTimeout(l.AttemptTimeout)
		f.visibility = 6*f.functionTimeout + l.Batch.Window
		ix.figures[n] = f
	}
	for n, k := range c.Classes {
		ix.buckets[n] = k.specs()
	}
	for _, n := range ix.classNames[:min(len(ix.classNames), MaxClassLabels)] {
		ix.labels[n] = true
	}
	c.indexPlaces(ix)
	c.index = ix
}

func (k *Class) specs() []BucketSpec {
	whole := BucketSpec{Name: DefaultBucket, Lane: k.Lane, Prior: k.Prior, Cap: k.Cap}
	if k.Sizes == nil {
		return []BucketSpec{whole}
	}
	list := make([]BucketSpec, 0, len(k.Sizes.Buckets))
	for _, b := range k.Sizes.Buckets {
		s := whole
		s.Name, s.From = b.Name, b.From
		if b.Lane != "" {
			s.Lane = b.Lane
		}
		if b.Prior != nil {
			s.Prior = *b.Prior
		}
		if b.Cap != 0 {
			s.Cap = b.Cap
		}
		list = append(list, s)
	}
	return list
}

// functionTimeout is min(900s, max(2a, a + 60s)) in whole seconds, rounded up, as a function's limit is set in seconds.
func functionTimeout(a Duration) Duration {
	f := min(Duration(900*time.Second), max(2*a, a+Duration(time.Minute)))
	return (f + Duration(time.Second) - 1) / Duration(time.Second) * Duration(time.Second)
}

// Lane finds a lane by name.
func (c *Config) Lane(name string) (*Lane, bool) { l, ok := c.Lanes[name]; return l, ok }

// Rules is the lane by whose rules (retry, attempt_timeout) a task goes on that the named lane admitted: that lane, or
// the retry lane, where its attempts go, if it was removed. nil only in a configuration that has neither.
func (c *Config) Rules(lane string) *Lane {
	if l, ok := c.Lanes[lane]; ok {
		return l
	}
	return c.Lanes[c.index.retry]
}

// Class finds a class by name.
func (c *Config) Class(name string) (*Class, bool) { k, ok := c.Classes[name]; return k, ok }

// Tier finds a tier by name.
func (c *Config) Tier(name string) (*Tier, bool) { t, ok := c.Tiers[name]; return t, ok }

// Priority finds a priority by name. All four names are found.
func (c *Config) Priority(name string) (*Priority, bool) { p, ok := c.Priorities[name]; return p, ok }

// Tenant finds a seed tenant by name.
func (c *Config) Tenant(name string) (*Tenant, bool) { t, ok := c.Tenants[name]; return t, ok }

// LaneNames are all lanes, the retry lane included, sorted. The caller must not change the list; the same holds below.
func (c *Config) LaneNames() []string { return c.index.laneNames }

// ClassNames are all classes, sorted.
func (c *Config) ClassNames() []string { return c.index.classNames }

// TierNames are all tiers, sorted.
func (c *Config) TierNames() []string { return c.index.tierNames }

// TenantNames are all seed tenants, sorted.
func (c *Config) TenantNames() []string { return c.index.tenantNames }

// RetryLane is the name of the lane with the role retry.
func (c *Config) RetryLane() string { return c.index.retry }

// Workers is how many invocations a lane runs at once: its max_concurrency, or for the retry lane
// max(2, its share of the sum of the others', rounded). 0 for an unknown lane, as in the next three.
func (c *Config) Workers(lane string) int { return c.index.figures[lane].workers }

// Slots is how many tasks a lane can hold open: Workers × batch size.
func (c *Config) Slots(lane string) int { return c.index.figures[lane].slots }

// LowSlots is how many of a lane's slots, of which it has so many now, are kept for low priority: max(1, floor(low_share
// × slots)), none where low_share is 0 or there are fewer than two.
func (c *Config) LowSlots(lane string, slots int) int {
	l, ok := c.Lanes[lane]
	if !ok || l.LowShare <= 0 || slots < 2 {
		return 0
	}
	return max(1, int(l.LowShare*float64(slots)+1e-9))
}

// FunctionTimeout of a lane's worker function, whole seconds: min(900s, max(2 × attempt_timeout, attempt_timeout + 60s)).
func (c *Config) FunctionTimeout(lane string) Duration { return c.index.figures[lane].functionTimeout }

// VisibilityTimeout of a lane's queue: 6 × function timeout + batch window.
func (c *Config) VisibilityTimeout(lane string) Duration { return c.index.figures[lane].visibility }

// MaxDeadline is the longest deadline a submission may ask for.
func (c *Config) MaxDeadline() Duration { return c.Tasks.MaxDeadline }

// Buckets are the buckets of a class in ascending order, at least one; nil for an unknown class.
func (c *Config) Buckets(class string) []BucketSpec { return c.index.buckets[class] }

// Classify finds the bucket of a task: the last whose from the hint reaches, and the smallest where the hint is absent.
// The error is ErrUnknownClass.
func (c *Config) Classify(class string, hints map[string]int64) (bucket, lane string, prior Prior, limit Duration, err error) {
	k, ok := c.Classes[class]
	if !ok {
		return "", "", Prior{}, 0, ErrUnknownClass
	}
	list := c.index.buckets[class]
	at := 0
	if k.Sizes != nil {
		if v, given := hints[k.Sizes.By]; given {
			for at+1 < len(list) && list[at+1].From <= v {
				at++
			}
		}
	}
	s := &list[at]
	return s.Name, s.Lane, s.Prior, s.Cap, nil
}

// OverHint names a hint above the largest value its class accepts; the first by name if there are several.
func (k *Class) OverHint(hints map[string]int64) (name string, limit int64, over bool) {
	for n, most := range k.MaxHints {
		if v, given := hints[n]; given && v > most && (!over || n < name) {
			name, limit, over = n, most, true
		}
	}
	return name, limit, over
}

// Retryable says whether a failure of the class may be repeated at all.
func (k *Class) Retryable() bool { return k.Retry != "none" }

// RunsLate says whether a task that cannot start in time runs all the same.
func (k *Class) RunsLate() bool { return k.Late == "run" }

// AllowsPriority says whether a submission may ask for a priority: no higher than the class's max and the tier's.
// An unknown priority is never allowed.
func AllowsPriority(k *Class, t *Tier, priority string) bool {
	r := PriorityRank(priority)
	return r >= 0 && r >= PriorityRank(k.Priority.Max) && r >= PriorityRank(t.MaxPriority)
}
