// Package gateway plays an Amazon API Gateway HTTP API with one Lambda
// integration: net/http in, events of payload format 2.0 to the handler, its
// answer back out.
//
// Guaranteed:
//
//   - The handler sees the JSON that AWS would send it. The path is percent-decoded
//     once and otherwise left alone (no cleaning of "..", "//" or a trailing
//     slash); as on AWS, a decoded "?" ends it. The query string stays encoded.
//     Bodies of text/*, application/json, application/xml and
//     application/javascript travel as text, all others in base64.
//   - Answers are read as AWS reads format 2.0, inferred answers included.
//   - The limits are those of AWS, with the gateway's own answers: request line
//     and header values over 10,240 bytes 431, body over 10 MB or event over 6 MB
//     413, integration over 30 s or throttled function 503, any failure or
//     nonsense of the function 500. These bodies are {"message": …}, not ours.
//   - A client that goes away does not stop the function.
//
// Put the gateway at the root of a server, never under http.ServeMux, which would
// redirect the paths it does not like.
//
// Chosen here because AWS documents nothing: a body of a text type that is not
// valid UTF-8 travels in base64, so that the handler sees what was sent.
package gateway
