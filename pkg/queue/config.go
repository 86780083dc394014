package queue

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Faults of the caller that engines report by value; test with errors.Is.
var (
	ErrNoQueue     = errors.New("queue: no such queue")
	ErrBadHandle   = errors.New("queue: not a receipt handle of this queue")
	ErrNotInFlight = errors.New("queue: the message is not in flight")
	ErrInvalid     = errors.New("queue: invalid request")
)

// Limits of SQS that every engine keeps.
const (
	MaxReceive      = 10               // messages per receive
	MaxWait         = 20 * time.Second // of a long poll
	MaxDelay        = 15 * time.Minute
	MaxVisibility   = 12 * time.Hour
	MinRetention    = time.Minute
	MaxRetention    = 14 * 24 * time.Hour
	MaxMessageBytes = 1 << 20 // body and attributes together
	MaxAttributes   = 10
)

// Config is how a queue treats its messages.
type Config struct {
	// Visibility is how long a received message stays hidden; 0 is 30 s, at
	// most MaxVisibility.
	Visibility time.Duration
	// MaxReceives is how often a message is received before it goes to
	// DeadLetter instead; 0 is without end. Both are set or neither.
	MaxReceives int
	DeadLetter  string
	// Retention is how long a message is kept from when it was first sent; 0 is
	// 4 days, MinRetention to MaxRetention.
	Retention time.Duration
	// Delay is that of messages sent without one; at most MaxDelay.
	Delay time.Duration
}

// WithDefaults fills what is zero.
func (c Config) WithDefaults() Config {
	if c.Visibility == 0 {
		c.Visibility = 30 * time.Second
	}
	if c.Retention == 0 {
		c.Retention = 4 * 24 * time.Hour
	}
	return c
}

// Validate reports every fault of a configuration whose defaults are filled in,
// each as an ErrInvalid.
func (c Config) Validate() error {
	return errors.Join(
		within("visibility", c.Visibility, 0, MaxVisibility),
		within("retention", c.Retention, MinRetention, MaxRetention),
		within("delay", c.Delay, 0, MaxDelay),
		faultIf(c.MaxReceives < 0 || c.MaxReceives > 1000, "max receives %d is not within 0 and 1000", c.MaxReceives),
		faultIf((c.MaxReceives > 0) != (c.DeadLetter != ""), "max receives and dead-letter queue go together"),
	)
}

// Validate reports every fault of the message that no engine would accept,
// each as an ErrInvalid.
func (m Outgoing) Validate() error {
	size, named := len(m.Body), true
	for name, value := range m.Attributes {
		// SQS counts the name, the type ("String") and the value.
		size += len(name) + len("String") + len(value)
		named = named && name != "" && value != "" && utf8.ValidString(value)
	}
	return errors.Join(
		faultIf(m.Body == "", "empty body"),
		faultIf(!utf8.ValidString(m.Body), "the body is not UTF-8"),
		faultIf(len(m.Attributes) > MaxAttributes, "%d attributes, allowed are %d", len(m.Attributes), MaxAttributes),
		faultIf(!named, "attributes need a name and a value in UTF-8"),
		faultIf(size > MaxMessageBytes, "%d bytes, allowed are %d", size, MaxMessageBytes),
		within("delay", m.Delay, 0, MaxDelay),
		faultIf(m.Delay%time.Second != 0, "delay %s is not in whole seconds", m.Delay),
	)
}

func within(name string, d, low, high time.Duration) error {
	return faultIf(d < low || d > high, "%s %s is not within %s and %s", name, d, low, high)
}

func faultIf(fault bool, format string, a ...any) error {
	if !fault {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, a...))
}
