package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Codes of cancellation reasons (Amazon DynamoDB API Reference,
// "TransactWriteItems", Errors, TransactionCanceledException).
const (
	reasonCondition  = "ConditionalCheckFailed"
	reasonConflict   = "TransactionConflict"
	reasonThroughput = "ProvisionedThroughputExceeded"
	reasonThrottling = "ThrottlingError"
	reasonValidation = "ValidationError"
)

// attemptTimeout is the error of an attempt that took too long while the call
// still has time. The SDK retries it, as it does every time-out.
type attemptTimeout struct{ cause string }

func (e *attemptTimeout) Error() string { return "dynamo: attempt timed out: " + e.cause }
func (e *attemptTimeout) Timeout() bool { return true }

// collided says that DynamoDB did nothing because others were in the way, so
// that the same call may simply be made again: a transaction that conflicts,
// or one cancelled for lack of capacity (the SDK retries neither).
//
// A cancellation can name a conflict on one item and a failed condition on
// another. AWS does not say that the list is complete then: the condition of
// the conflicting item was not judged. Reporting the failed one alone would
// tell the caller that the other condition held, so this too is tried again.
func collided(err error) bool {
	var conflict *types.TransactionConflictException
	var progress *types.TransactionInProgressException
	if errors.As(err, &conflict) || errors.As(err, &progress) {
		return true
	}
	found := false
	for _, r := range reasons(err) {
		switch code(r) {
		case reasonValidation:
			return false // it will not get better
		case reasonConflict, reasonThroughput, reasonThrottling:
			found = true
		}
	}
	return found
}

func reasons(err error) []types.CancellationReason {
	var cancelled *types.TransactionCanceledException
	if errors.As(err, &cancelled) {
		return cancelled.CancellationReasons
	}
	return nil
}

func code(r types.CancellationReason) string {
	if r.Code == nil {
		return ""
	}
	return *r.Code
}

// translate turns an error of the client into one that op.Table promises.
func translate(name string, err error) error {
	if err == nil {
		return nil
	}
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		item, derr := decodeItem(failed.Item)
		if derr != nil {
			return garbled(name, derr)
		}
		return &op.CondError{Name: name, Failed: []op.CondFailure{{Item: item}}}
	}
	var cancelled *types.TransactionCanceledException
	if errors.As(err, &cancelled) {
		return translateCancelled(name, cancelled, err)
	}
	if reason, ok := unavailable(err); ok {
		return &op.Unavailable{Name: name, Reason: reason, Err: err}
	}
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "ValidationException" && saysTooLarge(api.ErrorMessage()) {
		return fmt.Errorf("dynamo: %s: %w: %w", name, op.ErrTooLarge, err)
	}
	return fmt.Errorf("dynamo: %s: %w", name, err)
}

// garbled is an answer that is not of our making: the store cannot be read,
// which is not the caller's fault.
func garbled(name string, err error) error {
	return &op.Unavailable{Name: name, Reason: op.Internal, Err: err}
}

func translateCancelled(name string, cancelled *types.TransactionCanceledException, err error) error {
	out := &op.CondError{Name: name}
	transient := op.Reason("")
	for i, r := range cancelled.CancellationReasons {
		switch code(r) {
		case "", "None":
		case reasonCondition:
			item, derr := decodeItem(r.Item)
			if derr != nil {
				return garbled(name, derr)
			}
			out.Failed = append(out.Failed, op.CondFailure{Write: i, Item: item})
		case reasonConflict:
			transient = op.Conflict
		case reasonThroughput, reasonThrottling:
			if transient == "" {
				transient = op.Throttled
			}
		case reasonValidation:
			if r.Message != nil && saysTooLarge(*r.Message) {
				return fmt.Errorf("dynamo: %s: write %d: %w: %w", name, i, op.ErrTooLarge, err)
			}
			return fmt.Errorf("dynamo: %s: write %d: %w", name, i, err)
		default:
			return &op.Unavailable{Name: name, Reason: op.Internal, Err: err}
		}
	}
	switch {
	case transient != "":
		return &op.Unavailable{Name: name, Reason: transient, Err: err}
	case len(out.Failed) > 0:
		return out
	}
	return &op.Unavailable{Name: name, Reason: op.Internal, Err: err}
}

// saysTooLarge reads DynamoDB's message, which has no code of its own, about
// an item over 400 KB or a transaction over 4 MB. Not knowing the text only
// makes the error less precise.
func saysTooLarge(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "size") && (strings.Contains(m, "exceed") || strings.Contains(m, "too large"))
}

// unavailable says whether err is a trouble of the store or of the way to it,
// and which. What is left is a fault of the caller.
func unavailable(err error) (op.Reason, bool) {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return op.Timeout, true
	}
	var timeout *attemptTimeout
	if errors.As(err, &timeout) {
		return op.Timeout, true
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded",
			"Throttling", "ReplicatedWriteConflictException":
			return op.Throttled, true
		case "TransactionConflictException", "TransactionInProgressException":
			return op.Conflict, true
		case "RequestTimeout", "RequestTimeoutException":
			return op.Timeout, true
		case "ValidationException", "SerializationException", "IdempotentParameterMismatchException":
			return "", false
		}
		// A missing table, missing rights, an expired credential: not what the
		// caller asked, but the store cannot answer.
		return op.Internal, true
	}
	var nerr net.Error
	if errors.As(err, &nerr) && nerr.Timeout() {
		return op.Timeout, true
	}
	return op.Internal, true
}

// refused says that DynamoDB surely did nothing: it answered with a fault of
// the request, readable or not, or it was never reached.
func refused(err error) bool {
	var status interface{ HTTPStatusCode() int }
	if errors.As(err, &status) {
		code := status.HTTPStatusCode()
		return code >= 400 && code < 500 && code != http.StatusRequestTimeout
	}
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}
