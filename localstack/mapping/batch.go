package mapping

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/localstack/function"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// process invokes the function with a batch and deletes what succeeded. A batch
// whose event would be over 6 MB goes in parts, one after another.
func (m *Mapping) process(batch []queue.Message) {
	payload, err := m.encode(batch)
	if err != nil { // cannot happen: the event holds strings only
		m.cfg.Log.Error("event not encoded", "error", err)
		return
	}
	if len(payload) > function.MaxRequestBytes && len(batch) > 1 {
		half := len(batch) / 2
		m.process(batch[:half])
		m.process(batch[half:])
		return
	}
	m.count(func(s *Stats) { s.Batches++ })
	failed := m.invoke(batch, payload)
	m.count(func(s *Stats) { s.Kept += int64(len(failed)) })

	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.life), cleanUp)
	defer cancel()
	for _, msg := range batch {
		if failed[msg.ID] {
			continue
		}
		if err := m.cfg.Source.Delete(ctx, m.cfg.Queue, msg.ReceiptHandle); err != nil {
			m.count(func(s *Stats) { s.Faults++ })
			m.cfg.Log.Error("message not deleted; it will come again", "message_id", msg.ID, "error", err)
			continue
		}
		m.count(func(s *Stats) { s.Deleted++ })
	}
}

// invoke returns the ids of the messages that failed.
func (m *Mapping) invoke(batch []queue.Message, payload []byte) map[string]bool {
	out, err := m.fn.Invoke(m.life, payload)
	if function.KindOf(err) == function.Killed && m.life.Err() != nil { // nothing failed: Stop says how many
		m.count(func(s *Stats) { s.Cut++ })
		return ids(batch)
	}
	if err != nil {
		m.cfg.Log.Error("batch failed", "messages", len(batch), "kind", function.KindOf(err), "error", err)
		return ids(batch)
	}
	if !m.cfg.ReportBatchItemFailures {
		return nil
	}
	failed, err := decodeFailures(out, ids(batch))
	if err != nil {
		m.cfg.Log.Error("the answer to a batch is unusable, all of it failed", "messages", len(batch), "error", err)
		return ids(batch)
	}
	return failed
}

func ids(batch []queue.Message) map[string]bool {
	out := make(map[string]bool, len(batch))
	for _, msg := range batch {
		out[msg.ID] = true
	}
	return out
}

// decodeFailures reads an answer of ReportBatchItemFailures. Names are exact, as
// in AWS's decoder and unlike in Go's.
func decodeFailures(out []byte, batch map[string]bool) (map[string]bool, error) {
	if len(bytes.TrimSpace(out)) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(out, &fields); err != nil {
		return nil, err
	}
	var items []map[string]json.RawMessage
	if list, ok := fields["batchItemFailures"]; ok {
		if err := json.Unmarshal(list, &items); err != nil {
			return nil, fmt.Errorf("batchItemFailures: %w", err)
		}
	}
	failed := make(map[string]bool, len(items))
	for _, item := range items {
		var id string
		if raw, ok := item["itemIdentifier"]; !ok {
			return nil, errors.New("a failure without itemIdentifier")
		} else if err := json.Unmarshal(raw, &id); err != nil {
			return nil, fmt.Errorf("itemIdentifier: %w", err)
		}
		if !batch[id] {
			return nil, fmt.Errorf("itemIdentifier %q is not in the batch", id)
		}
		failed[id] = true
	}
	return failed, nil
}
