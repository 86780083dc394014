package intake

import (
	"context"
	"encoding/base64"
	"sort"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// MaxWait is the longest a read waits for a task to become terminal; API
// Gateway ends a call after 30 s.
const MaxWait = 25 * time.Second

// Polling of a waited-for task: often at first, since most tasks are short.
const (
	pollFirst = 50 * time.Millisecond
	pollMost  = 500 * time.Millisecond
)

// Get reads a task of the caller's own, with its result. With wait it answers as soon
// as the task is not live any more (terminal or quarantined), at the latest after that time. The error is a
// *Refusal; another tenant's task is not found like one that never was.
func (s *Service) Get(ctx context.Context, who Principal, id string, wait time.Duration) (*task.Task, error) {
	if who.Operator {
		return nil, errForbidden
	}
	if !ValidID(id) {
		return nil, errNotFound
	}
	until := s.Clock().Add(min(wait, MaxWait))
	for pause := pollFirst; ; pause = min(2*pause, pollMost) {
		t, err := s.read(ctx, who.Tenant, id)
		if err != nil {
			return nil, Unavailable(ctx, "reading a task", err)
		}
		if t == nil {
			return nil, errNotFound
		}
		left := until.Sub(s.Clock())
		if !t.State.Live() || left <= 0 {
			return s.withResult(ctx, t)
		}
		select {
		case <-ctx.Done():
			return s.withResult(context.WithoutCancel(ctx), t)
		case <-time.After(min(pause, left)):
		}
	}
}

// read returns the caller's task, nil when there is none.
func (s *Service) read(ctx context.Context, tenant, id string) (*task.Task, error) {
	key := taskop.RowKey(tenant, id)
	item, err := s.Table.Get(ctx, key, true)
	if err != nil || item == nil {
		return nil, err
	}
	return taskop.DecodeRow(key, item)
}

func (s *Service) withResult(ctx context.Context, t *task.Task) (*task.Task, error) {
	if !t.ResultBeside || t.State != task.Succeeded {
		return t, nil
	}
	item, err := s.Table.Get(ctx, taskop.ResultKey(t.Tenant, t.ID, t.Gen), true)
	if err != nil {
		return nil, Unavailable(ctx, "reading a result", err)
	}
	t.Result = taskop.Body(item)
	return t, nil
}

// Filter says which tasks a list shows.
type Filter struct {
	State, Class string // "" is any
	Limit        int    // 1 to MaxPage
	Cursor       string // of an earlier page
}

// MaxPage and DefaultPage are the tasks on a page.
const (
	MaxPage     = 100
	DefaultPage = 20
	// maxScan bounds the rows looked at for one page of a narrow filter; the page
	// is then shorter than its limit and still has a cursor.
	maxScan = 1000
)

// List pages through the caller's tasks by id. The error is a *Refusal.
func (s *Service) List(ctx context.Context, who Principal, f Filter) (tasks []*task.Task, next string, err error) {
	if who.Operator {
		return nil, "", errForbidden
	}
	after := ""
	if f.Cursor != "" {
		if !ValidCursor(f.Cursor) {
			return nil, "", Invalid([]events.FieldError{{Pointer: "query:cursor", Detail: "is not a cursor of this list"}})
		}
		raw, _ := base64.RawURLEncoding.DecodeString(f.Cursor)
		after = string(raw)
	}
	scanned := 0
	for {
		rows, err := s.nextRows(ctx, who.Tenant, after)
		if err != nil {
			return nil, "", Unavailable(ctx, "listing tasks", err)
		}
		if len(rows) == 0 {
			return tasks, "", nil
		}
		for _, t := range rows {
			scanned++
			after = t.ID
			if f.State != "" && string(t.State) != f.State || f.Class != "" && t.Class != f.Class {
				continue
			}
			if len(tasks) == f.Limit { // one more than asked for: there is a next page
				return tasks, cursorOf(tasks[len(tasks)-1].ID), nil
			}
			if t, err = s.withResult(ctx, t); err != nil {
				return nil, "", err
			}
			tasks = append(tasks, t)
		}
		if scanned >= maxScan {
			return tasks, cursorOf(after), nil
		}
	}
}

func cursorOf(id string) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }

// nextRows merges the tenant's partitions: the next rows by id after one.
func (s *Service) nextRows(ctx context.Context, tenant, after string) ([]*task.Task, error) {
	var rows []*task.Task
	bound := "" // ids beyond it may have predecessors that were not read yet
	for shard := range taskop.TaskShards {
		q := op.Query{PK: taskop.RowPartition(tenant, shard), Limit: MaxPage, Consistent: true}
		if after != "" {
			q.From = after + "\x00" // the next id at least
		}
		for {
			page, err := s.Table.Query(ctx, q)
			if err != nil {
				return nil, err
			}
			for _, r := range page.Rows {
				t, err := taskop.DecodeRow(r.Key, r.Item)
				if err != nil {
					return nil, err
				}
				rows = append(rows, t)
			}
			if n := len(page.Rows); n > 0 && page.Cursor != "" {
				if last := page.Rows[n-1].Key.SK; bound == "" || strings.Compare(last, bound) < 0 {
					bound = last
				}
				break
			}
			if page.Cursor == "" {
				break
			}
			q.Cursor = page.Cursor // an empty page that is not the end
		}
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].ID < rows[j].ID })
	if bound != "" {
		rows = rows[:sort.Search(len(rows), func(i int) bool { return rows[i].ID > bound })]
	}
	return rows, nil
}

// ValidCursor says whether a cursor can be one of a list's.
func ValidCursor(cursor string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	return err == nil && ValidID(string(raw))
}
