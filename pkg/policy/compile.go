package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/lanekeeper/lanekeeper/pkg/policy/internal/shape"
)

// Compile is the configuration with all defaults filled in as JSON with sorted names: what functions are deployed with.
// Two files that mean the same compile to the same bytes.
func (c *Config) Compile() ([]byte, error) { return json.Marshal(c) }

// Hash is the SHA-256 of the compiled configuration in hexadecimal.
func (c *Config) Hash() string {
	b, err := c.Compile()
	if err != nil {
		panic("policy: a valid configuration does not compile: " + err.Error()) // every value is finite text, number or bool
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// FromCompiled reads what Compile wrote. Unknown keys and faults of any kind are errors (a *Faults where the JSON itself
// is sound): a function does not start on a configuration it does not fully understand.
func FromCompiled(b []byte) (*Config, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	c := &Config{}
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("policy: compiled configuration: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("policy: compiled configuration: something follows it")
	}
	var faults []Fault
	if c.hollow() { // cannot be checked as a whole
		shape.Inspect(shape.Of(reflect.TypeFor[Config]()), reflect.ValueOf(c).Elem(), nil, func(path, message string, _ bool) {
			faults = append(faults, Fault{Path: path, Message: message})
		})
	} else {
		faults = New(c, nil)
	}
	if f := NewFaults("compiled configuration", faults); f != nil {
		return nil, f
	}
	return c, nil
}

// hollow says that some entry of a map or list is null, which JSON can express.
func (c *Config) hollow() bool {
	for _, l := range c.Lanes {
		if l == nil || slices.Contains(l.Brakes, nil) {
			return true
		}
	}
	for _, k := range c.Classes {
		if k == nil || hasNil(k.DependsOn) || k.Sizes != nil && slices.Contains(k.Sizes.Buckets, nil) {
			return true
		}
	}
	for _, d := range c.Dependencies {
		if d == nil || hasNil(d.Lanes) {
			return true
		}
	}
	return hasNil(c.Tiers) || hasNil(c.Tenants) || hasNil(c.Priorities)
}

func hasNil[T any](m map[string]*T) bool {
	for _, v := range m {
		if v == nil {
			return true
		}
	}
	return false
}
