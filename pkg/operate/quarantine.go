package operate

import (
	"context"
	"encoding/base64"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// Entry is a quarantined task as the index shows it: it may have left since.
type Entry struct {
	taskop.QuarantineEntry
	Tenant string
	Key    op.Key
	Place  string // in the order of the whole quarantine
}

// Scan goes through the quarantine, oldest first, lanes merged.
type Scan struct {
	table  op.Table
	filter events.ReplayFilter
	nowMS  int64
	lanes  []laneScan
	// Seen counts the entries looked at, matching or not; At is the place of the
	// last of them.
	Seen int
	At   string
}

type laneScan struct {
	query op.Query
	rows  []op.Row
	ended bool
}

const scanPage = 100

// NewScan begins after a place ("" is the beginning). lanes are all lanes of
// the configuration.
func NewScan(table op.Table, lanes []string, f events.ReplayFilter, after string, nowMS int64) *Scan {
	s := &Scan{table: table, filter: f, nowMS: nowMS}
	if f.Lane != "" {
		lanes = []string{f.Lane}
	}
	for _, lane := range lanes {
		q := op.Query{Index: op.IndexReady, PK: taskop.QuarantinePartition(lane), Limit: scanPage}
		if after != "" {
			q.From = after + "\x00"
		}
		s.lanes = append(s.lanes, laneScan{query: q})
	}
	return s
}

// Next gives the next entry that matches; ok is false at the end, or once most
// entries were looked at (Seen says which).
func (s *Scan) Next(ctx context.Context, most int) (e Entry, ok bool, err error) {
	for s.Seen < most {
		e, ok, err = s.next(ctx)
		if err != nil || !ok {
			return e, false, err
		}
		s.Seen, s.At = s.Seen+1, e.Place
		if s.nowMS-e.AtMS < int64(s.filter.MinAge) {
			return e, false, nil // they are in order of age: the rest is younger still
		}
		if s.match(e) {
			return e, true, nil
		}
	}
	return e, false, nil
}

func (s *Scan) match(e Entry) bool {
	f := &s.filter
	return (f.Class == "" || f.Class == e.Class) && (f.Tenant == "" || f.Tenant == e.Tenant) && (f.Signature == "" || f.Signature == e.Signature)
}

func (s *Scan) next(ctx context.Context) (Entry, bool, error) {
	var first *laneScan
	for i := range s.lanes {
		l := &s.lanes[i]
		for len(l.rows) == 0 && !l.ended {
			page, err := s.table.Query(ctx, l.query)
			if err != nil {
				return Entry{}, false, err
			}
			l.rows, l.query.Cursor, l.ended = page.Rows, page.Cursor, page.Cursor == ""
		}
		if len(l.rows) > 0 && (first == nil || place(l.rows[0]) < place(first.rows[0])) {
			first = l
		}
	}
	if first == nil {
		return Entry{}, false, nil
	}
	row := first.rows[0]
	first.rows = first.rows[1:]
	e := Entry{Key: row.Key, Place: place(row)}
	var err error
	if e.QuarantineEntry, err = taskop.ParseQuarantineSort(e.Place); err != nil {
		return Entry{}, false, err
	}
	e.Tenant, _, _ = taskop.ParseRowKey(row.Key)
	return e, true, nil
}

func place(row op.Row) string { return row.Item.Str("rs") }

// Read reads an entry's row, nil when it has left the quarantine.
func (e Entry) Read(ctx context.Context, table op.Table) (*task.Task, error) {
	item, err := table.Get(ctx, e.Key, true)
	if err != nil || item == nil {
		return nil, err
	}
	t, err := taskop.DecodeRow(e.Key, item)
	if err != nil || t.State != task.Quarantined || t.QuarantinedMS != e.AtMS {
		return nil, err
	}
	return t, nil
}

// maxScan bounds the entries looked at for one page of a narrow filter; the page
// is then shorter than its limit and still has a cursor.
const maxScan = 5000

// Quarantine pages through the quarantined tasks of all tenants, oldest first.
// The error is a *Refusal.
func (s *Service) Quarantine(ctx context.Context, f events.ReplayFilter, limit int, cursor string) (events.QuarantinePage, error) {
	var page events.QuarantinePage
	after, ok := fromCursor(cursor)
	if !ok {
		return page, intake.Invalid([]events.FieldError{{Pointer: "query:cursor", Detail: "is not a cursor of this list"}})
	}
	scan := NewScan(s.Table, s.Config.LaneNames(), f, after, s.Clock().UnixMilli())
	last := after
	for len(page.Items) < limit {
		e, ok, err := scan.Next(ctx, maxScan)
		if err != nil {
			return page, intake.Unavailable(ctx, "listing the quarantine", err)
		}
		if !ok {
			if scan.Seen >= maxScan {
				page.NextCursor = toCursor(scan.At)
			}
			return page, nil
		}
		last = e.Place
		t, err := e.Read(ctx, s.Table)
		if err != nil {
			return page, intake.Unavailable(ctx, "listing the quarantine", err)
		}
		if t != nil {
			page.Items = append(page.Items, view(t))
		}
	}
	page.NextCursor = toCursor(last)
	return page, nil
}

func view(t *task.Task) events.QuarantinedTask {
	q := events.QuarantinedTask{ID: t.ID, Tenant: t.Tenant, Class: t.Class, Bucket: t.Bucket, Lane: t.Lane, Attempt: int(t.Attempt),
		QuarantinedAt: events.Time(t.QuarantinedMS)}
	if t.Error != nil {
		q.Error = events.TaskError{Code: t.Error.Code, Signature: t.Error.Signature, Message: t.Error.Message, Retryable: t.Error.Retryable}
	}
	return q
}

func toCursor(place string) events.Null {
	return events.Null(base64.RawURLEncoding.EncodeToString([]byte(place)))
}

func fromCursor(cursor string) (place string, ok bool) {
	if cursor == "" {
		return "", true
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", false
	}
	_, err = taskop.ParseQuarantineSort(string(raw))
	return string(raw), err == nil
}
