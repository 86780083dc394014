package telemetry

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Limits of the embedded metric format.
const (
	MaxMetrics    = 100       // of a line
	MaxValues     = 100       // of a metric
	MaxDimensions = 30        // of a line
	MaxLineBytes  = 256 << 10 // of a log event
	maxNameBytes  = 1024      // of a metric's or dimension's name and value
)

// value is one metric of a line: a number, or up to MaxValues of them.
type value struct {
	metric string
	data   any // float64 or []float64
}

// writer writes lines, each with one Write.
type writer struct {
	mu        sync.Mutex
	out       io.Writer
	namespace string
}

type definition struct {
	Name string `json:"Name"`
	Unit string `json:"Unit"`
}

type directive struct {
	Namespace  string       `json:"Namespace"`
	Dimensions [][]string   `json:"Dimensions"`
	Metrics    []definition `json:"Metrics"`
}

// line writes the metrics of one combination of dimension values; more than a
// line can hold go on several. Dimensions are those that the metrics are
// declared with, in that order.
func (w *writer) line(atMS int64, dims []string, labels []string, values []value) error {
	for len(values) > 0 {
		n := min(len(values), MaxMetrics)
		text, err := w.encode(atMS, dims, labels, values[:n])
		if err != nil {
			return err
		}
		w.mu.Lock()
		_, err = w.out.Write(text)
		w.mu.Unlock()
		if err != nil {
			return fmt.Errorf("telemetry: %w", err)
		}
		values = values[n:]
	}
	return nil
}

func (w *writer) encode(atMS int64, dims, labels []string, values []value) ([]byte, error) {
	if len(dims) != len(labels) || len(dims) == 0 || len(dims) > MaxDimensions {
		return nil, fmt.Errorf("telemetry: %d dimensions, %d values of them", len(dims), len(labels))
	}
	d := directive{Namespace: w.namespace, Dimensions: [][]string{append([]string{}, dims...)}}
	root := map[string]any{}
	for i, name := range dims {
		if labels[i] == "" || len(labels[i]) > maxNameBytes {
			return nil, fmt.Errorf("telemetry: dimension %s is empty or too long", name)
		}
		root[name] = labels[i]
	}
	for _, v := range values {
		m, ok := Find(v.metric)
		if !ok || strings.Join(m.Dimensions, ",") != strings.Join(dims, ",") {
			return nil, fmt.Errorf("telemetry: %s is not declared with the dimensions %v", v.metric, dims)
		}
		if list, ok := v.data.([]float64); ok && (len(list) == 0 || len(list) > MaxValues) {
			return nil, fmt.Errorf("telemetry: %s has %d values", v.metric, len(list))
		}
		d.Metrics = append(d.Metrics, definition{m.Name, m.Unit})
		root[v.metric] = v.data
	}
	root["_aws"] = map[string]any{"Timestamp": atMS, "CloudWatchMetrics": []directive{d}}
	text, err := json.Marshal(root) // NaN and infinities are errors
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if len(text) >= MaxLineBytes {
		return nil, fmt.Errorf("telemetry: a line of %d bytes", len(text))
	}
	return append(text, '\n'), nil
}
