package contract

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/lanekeeper/lanekeeper/events"
)

// maxGrowth is how much more memory a server may hold after the suite than before it.
const maxGrowth = 50e6

func baselineCases() []testCase {
	return []testCase{{name: "metrics/are served", run: func(c *C) {
		c.submit(short) // so that what is made once is there before the baseline is taken
		m := c.metrics()
		c.baseline = m["process_resident_memory_bytes"]
		if c.baseline <= 0 {
			c.errorf("no process_resident_memory_bytes")
		}
	}}}
}

func healthCases() []testCase {
	return []testCase{{name: "healthz/200 without credentials", run: func(c *C) {
		got := c.send(request{path: "/healthz", key: noKey})
		got.want(c, http.StatusOK)
		if h := decodeAs[events.Health](c, got); h.Status != "ok" || len(h.ConfigHash) != 64 || h.Version == "" {
			c.errorf("%s", got)
		}
	}}}
}

func endCases() []testCase {
	return []testCase{
		{name: "end/every ledger reads zero", run: func(c *C) {
			c.eventually("zero ledgers", func() (bool, string) {
				m := c.metrics()
				works, actives := 0, 0
				for name, value := range m {
					switch {
					case strings.HasPrefix(name, "lanekeeper_ledger_work_ms{"):
						works++
					case strings.HasPrefix(name, "lanekeeper_ledger_active{"):
						actives++
					default:
						continue
					}
					if value != 0 {
						return false, fmt.Sprintf("%s is %g", name, value)
					}
				}
				return works >= 2 && works == actives, fmt.Sprintf("%d tenants with work, %d with active", works, actives)
			})
		}},
		{name: "end/every lane is empty", run: func(c *C) {
			c.eventually("empty lanes", func() (bool, string) {
				for _, l := range c.lanes() {
					if l.Waiting != 0 || l.Queued != 0 || l.Running != 0 || l.QueuedWork != 0 {
						return false, string(mustJSON(l))
					}
				}
				return true, ""
			})
		}},
		{name: "end/the process has not grown by 50 MB", run: func(c *C) {
			if c.baseline == 0 {
				c.fatalf("the size at the beginning is not known")
			}
			c.eventually("memory given back", func() (bool, string) {
				grown := c.metrics()["process_resident_memory_bytes"] - c.baseline
				return grown < maxGrowth, fmt.Sprintf("grown by %.1f MB", grown/1e6)
			})
		}},
	}
}

// metrics reads the Prometheus text beside the API: value by name with labels. It is no part of the document.
func (c *C) metrics() map[string]float64 {
	req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, strings.TrimSuffix(c.cfg.Base, "/")+"/metrics", nil)
	c.must(err)
	resp, err := c.client.Do(req)
	c.must(err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	c.must(err)
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		c.fatalf("GET /metrics → %d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	m, err := parseMetrics(body)
	c.must(err)
	return m
}

func parseMetrics(text []byte) (map[string]float64, error) {
	m := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		// A label's value may hold spaces: the name ends at the brace, if there is one.
		end := strings.LastIndexByte(line, '}') + 1
		if end == 0 {
			end = strings.IndexByte(line, ' ')
		}
		if end <= 0 {
			return nil, fmt.Errorf("metrics: line %q has no value", line)
		}
		fields := strings.Fields(line[end:])
		if len(fields) == 0 {
			return nil, fmt.Errorf("metrics: line %q has no value", line)
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: line %q: %w", line, err)
		}
		m[line[:end]] = value
	}
	return m, lines.Err()
}

// decodeAs reads an answer's body.
func decodeAs[T any](c *C, r reply) T {
	var v T
	if err := json.Unmarshal(r.body, &v); err != nil {
		c.fatalf("%s: %v", r, err)
	}
	return v
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return b
}

var uniqueCount atomic.Int64

// unique gives an idempotency key that no other run of the suite uses either.
func (c *C) unique(what string) string {
	return fmt.Sprintf("%s-%x-%x-%d", what, c.cfg.Now().UnixNano(), os.Getpid(), uniqueCount.Add(1))
}
