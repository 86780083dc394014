package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MessageVersion is the version of the messages that this build sends and understands.
const MessageVersion = 1

// MaxMessageBytes bounds the body of a message; ours are far smaller, so what is larger is not ours.
const MaxMessageBytes = 4096

// ErrVersion marks a message or tick of a version that this build does not know. It may come from a newer build:
// it is to be set aside, not thrown away.
var ErrVersion = errors.New("unknown version")

// ErrMalformed marks a body that is not a message at all.
var ErrMalformed = errors.New("malformed")

// Message is the body of a queue message: a wake-up for one generation of a task. The task's row is the truth, so a
// message that comes twice, late or never changes no outcome.
type Message struct {
	V      int    `json:"v"`
	Tenant string `json:"tenant"` // 1 to 64 characters
	Task   string `json:"task"`   // 1 to 64 characters
	Gen    int64  `json:"gen"`    // at least 0
}

// NewMessage makes the message for one generation of a task.
func NewMessage(tenant, task string, gen int64) Message {
	return Message{V: MessageVersion, Tenant: tenant, Task: task, Gen: gen}
}

// Encode gives the body to send.
func (m Message) Encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic("events: a message of plain fields did not encode: " + err.Error())
	}
	return b
}

// DecodeMessage reads a message's body. Within version 1 unknown fields are ignored, so that a later build may add
// some. Errors are [ErrVersion] or [ErrMalformed], with what was wrong but without the body's text.
func DecodeMessage(body []byte) (Message, error) {
	var m struct {
		V      *int    `json:"v"`
		Tenant *string `json:"tenant"`
		Task   *string `json:"task"`
		Gen    *int64  `json:"gen"`
	}
	if err := decodeVersioned(body, MessageVersion, &m); err != nil {
		return Message{}, fmt.Errorf("message: %w", err)
	}
	switch {
	case m.Tenant == nil || !name(*m.Tenant):
		return Message{}, fmt.Errorf("message: %w: tenant", ErrMalformed)
	case m.Task == nil || !name(*m.Task):
		return Message{}, fmt.Errorf("message: %w: task", ErrMalformed)
	case m.Gen == nil || *m.Gen < 0:
		return Message{}, fmt.Errorf("message: %w: gen", ErrMalformed)
	}
	return Message{V: *m.V, Tenant: *m.Tenant, Task: *m.Task, Gen: *m.Gen}, nil
}

// name accepts what our ids and tenants are made of.
func name(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// decodeVersioned reads one JSON object, looking at its version first: what a later version means by its other
// fields is not ours to judge.
func decodeVersioned(body []byte, version int, into any) error {
	if len(body) > MaxMessageBytes {
		return fmt.Errorf("%w: %d bytes", ErrMalformed, len(body))
	}
	var head struct {
		V *int `json:"v"`
	}
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return fmt.Errorf("%w: not a JSON object", ErrMalformed)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&head); err != nil || head.V == nil {
		return fmt.Errorf("%w: no version", ErrMalformed)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: text after the object", ErrMalformed)
	}
	if *head.V != version {
		return fmt.Errorf("%w %d", ErrVersion, *head.V)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: a field has the wrong type", ErrMalformed)
	}
	return nil
}
