// Package apitest holds answers of a Lanekeeper server against openapi.yaml. It is for tests and for the contract
// suite; no server imports it.
//
// What is guaranteed: an answer passes only if its path and method are documented (or it is the documented 404 or 405
// for those that are not), its status is listed for that operation, every required header is there and every header
// of the contract that is there is documented and well-formed, its media type is the documented one, and its body
// satisfies the schema, which is closed: a field that the document does not name is a violation. Beyond what schemas
// can say: a body has no duplicate keys; Retry-After equals retry_after_seconds; a problem's type, code and status
// belong together; a task's links name the task that was asked for; Retry-After is on a task exactly while it is live.
//
// All violations of an answer are reported together.
package apitest
