package events

import _ "embed"

// OpenAPI is the text of openapi.yaml (OpenAPI 3.1): the truth about the HTTP API. Not to be changed.
//
//go:embed openapi.yaml
var OpenAPI []byte

// MessageSchema is the JSON Schema (2020-12) of [Message]. Not to be changed.
//
//go:embed message.schema.json
var MessageSchema []byte

// TickSchema is the JSON Schema (2020-12) of [Tick]. Not to be changed.
//
//go:embed tick.schema.json
var TickSchema []byte
