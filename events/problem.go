package events

import "net/http"

// Media types of answers.
const (
	MediaJSON    = "application/json"
	MediaProblem = "application/problem+json"
)

// ProblemType is what a problem's type begins with; its code follows.
const ProblemType = "urn:lanekeeper:problem:"

// Code is the stable name of an error: what a client may act on. Texts may change, codes do not.
type Code string

// The codes. What each means to a client stands in openapi.yaml.
const (
	RejectTenantLimit    Code = "reject_tenant_limit"
	RejectRateLimit      Code = "reject_rate_limit"
	RejectDeadline       Code = "reject_deadline"
	RejectLaneBacklog    Code = "reject_lane_backlog"
	RejectLanePaused     Code = "reject_lane_paused"
	RejectDependency     Code = "reject_dependency"
	DeadlineInfeasible   Code = "deadline_infeasible"
	UnknownClass         Code = "unknown_class"
	InvalidRequest       Code = "invalid_request"
	PayloadTooLarge      Code = "payload_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	Unauthenticated      Code = "unauthenticated"
	Forbidden            Code = "forbidden"
	ForbiddenPriority    Code = "forbidden_priority"
	NotFound             Code = "not_found"
	MethodNotAllowed     Code = "method_not_allowed"
	IdempotencyConflict  Code = "idempotency_conflict"
	AlreadyFinished      Code = "already_finished"
	Unavailable          Code = "unavailable"
)

// codeInfo is all that follows from a code alone.
type codeInfo struct {
	code    Code
	status  int
	title   string
	retry   bool // Retry-After is required
	decided bool // decision is required
}

// codes is the one table from code to status.
var codes = [...]codeInfo{
	{RejectTenantLimit, http.StatusTooManyRequests, "The tenant's budget is used up for now", true, true},
	{RejectRateLimit, http.StatusTooManyRequests, "The tenant submits too fast", true, true},
	{RejectDeadline, http.StatusServiceUnavailable, "It would not finish before its deadline", true, true},
	{RejectLaneBacklog, http.StatusServiceUnavailable, "The lane's backlog is full", true, true},
	{RejectLanePaused, http.StatusServiceUnavailable, "The lane is paused", true, true},
	{RejectDependency, http.StatusServiceUnavailable, "A dependency is in trouble", true, true},
	{DeadlineInfeasible, http.StatusUnprocessableEntity, "Not even an empty lane could keep the deadline", false, true},
	{UnknownClass, http.StatusUnprocessableEntity, "There is no such task class", false, false},
	{InvalidRequest, http.StatusBadRequest, "The request is invalid", false, false},
	{PayloadTooLarge, http.StatusRequestEntityTooLarge, "The body or the payload is too large", false, false},
	{UnsupportedMediaType, http.StatusUnsupportedMediaType, "The body must be application/json", false, false},
	{Unauthenticated, http.StatusUnauthorized, "The credentials are missing or unknown", false, false},
	{Forbidden, http.StatusForbidden, "These credentials do not allow this call", false, false},
	{ForbiddenPriority, http.StatusForbidden, "This priority is not allowed here", false, false},
	{NotFound, http.StatusNotFound, "There is no such thing", false, false},
	{MethodNotAllowed, http.StatusMethodNotAllowed, "This path does not have that method", false, false},
	{IdempotencyConflict, http.StatusConflict, "The idempotency key was used with another request", false, false},
	{AlreadyFinished, http.StatusConflict, "The task has already finished", false, false},
	{Unavailable, http.StatusServiceUnavailable, "The service is unavailable for the moment", true, false},
}

// Codes lists every problem code, in the order in which they are documented.
func Codes() []Code {
	list := make([]Code, len(codes))
	for i := range codes {
		list[i] = codes[i].code
	}
	return list
}

// info finds a code's row. A code without one is a mistake of ours and counts as unavailable.
func (c Code) info() codeInfo {
	for i := range codes {
		if codes[i].code == c {
			return codes[i]
		}
	}
	return codeInfo{code: c, status: http.StatusServiceUnavailable, title: "The service is unavailable for the moment", retry: true}
}

// Status is the HTTP status that goes with a code; [Accept] is 202.
func (c Code) Status() int {
	if c == Accept {
		return http.StatusAccepted
	}
	return c.info().status
}

// Retry reports whether an answer with this code must carry Retry-After.
func (c Code) Retry() bool { return c != Accept && c.info().retry }

// Decided reports whether an answer with this code carries a decision.
func (c Code) Decided() bool { return c == Accept || c.info().decided }

// FieldError is one fault of a request. Pointer is a JSON Pointer (RFC 6901) into the body, "" for the whole of it;
// for faults elsewhere "query:NAME" or "header:NAME".
type FieldError struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// Problem is an error answer (RFC 9457). It says nothing about our insides.
type Problem struct {
	Type              string       `json:"type"`
	Title             string       `json:"title"`
	Status            int          `json:"status"`
	Code              Code         `json:"code"`
	Detail            string       `json:"detail"`
	Errors            []FieldError `json:"errors,omitempty"`
	RetryAfterSeconds int64        `json:"retry_after_seconds,omitzero"` // 1 to 86400; equals Retry-After
	Decision          *Decision    `json:"decision,omitempty"`
}

// NewProblem makes the problem of a code, with the type, title and status that belong to it. The caller adds
// RetryAfterSeconds where [Code.Retry] holds, Decision where [Code.Decided] holds, Errors for invalid_request.
func NewProblem(code Code, detail string) Problem {
	row := code.info()
	return Problem{Type: ProblemType + string(code), Title: row.title, Status: row.status, Code: code, Detail: detail}
}
