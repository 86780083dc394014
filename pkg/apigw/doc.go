// Package apigw is the HTTP API on API Gateway HTTP API events (payload format
// 2.0): it routes, authenticates, decodes, and writes answers exactly as
// events/openapi.yaml says. One table maps codes to statuses; no internal text
// reaches a client. Paths are matched as they came: nothing is cleaned or
// redirected.
package apigw
