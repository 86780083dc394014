package gateway

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

const defaultRoute = "$default"

// event is the request in payload format 2.0. The type of the Go library always
// writes "authentication", which AWS leaves out without mutual TLS; handlers
// decode it to the same nothing.
func (g *Gateway) event(r *http.Request, body []byte, id string) *events.APIGatewayV2HTTPRequest {
	now := g.opts.Now().UTC()
	domain := g.opts.DomainName
	if domain == "" {
		domain = hostOnly(r.Host)
	}
	prefix, _, _ := strings.Cut(domain, ".")
	path := rawPath(r.URL)
	peer := hostOnly(r.RemoteAddr)
	e := &events.APIGatewayV2HTTPRequest{
		Version:        "2.0",
		RouteKey:       defaultRoute,
		RawPath:        path,
		RawQueryString: r.URL.RawQuery,
		Cookies:        cookies(r.Header),
		Headers:        headers(r, peer, now.Unix(), len(body)),
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			RouteKey:     defaultRoute,
			AccountID:    g.opts.AccountID,
			Stage:        "$default",
			RequestID:    id,
			APIID:        g.opts.APIID,
			DomainName:   domain,
			DomainPrefix: prefix,
			Time:         now.Format("02/Jan/2006:15:04:05 +0000"),
			TimeEpoch:    now.UnixMilli(),
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{
				Method:    r.Method,
				Path:      path,
				Protocol:  r.Proto,
				SourceIP:  peer,
				UserAgent: r.UserAgent(),
			},
		},
		QueryStringParameters: queryParameters(r.URL.RawQuery),
	}
	if len(body) > 0 {
		if isText(r.Header.Get("Content-Type")) && utf8.Valid(body) {
			e.Body = string(body)
		} else {
			e.Body = base64.StdEncoding.EncodeToString(body)
			e.IsBase64Encoded = true
		}
	}
	return e
}

// rawPath is the path as an HTTP API hands it over: despite its name decoded,
// and cut at a decoded question mark.
func rawPath(u *url.URL) string {
	path, _, _ := strings.Cut(u.Path, "?")
	return path
}

// queryParameters decodes the pairs; repeated names are joined with commas in
// their order. A pair with a bad escape stays as it came.
func queryParameters(raw string) map[string]string {
	if raw == "" {
		return nil
	}
	out := map[string]string{}
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, value = unescape(name), unescape(value)
		if before, ok := out[name]; ok {
			value = before + "," + value
		}
		out[name] = value
	}
	return out
}

func unescape(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		return plain
	}
	return s
}

// cookies are the parts of all Cookie headers; they are left out of headers.
func cookies(h http.Header) []string {
	var out []string
	for _, line := range h.Values("Cookie") {
		for part := range strings.SplitSeq(line, ";") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

// hopByHop are the headers that end at the gateway.
var hopByHop = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-connection": true, "te": true,
	"trailer": true, "transfer-encoding": true, "upgrade": true, "expect": true, "cookie": true,
}

func headers(r *http.Request, peer string, unix int64, bodyLen int) map[string]string {
	out := make(map[string]string, len(r.Header)+6)
	for name, values := range r.Header {
		if name = strings.ToLower(name); !hopByHop[name] {
			out[name] = strings.Join(values, ",")
		}
	}
	scheme, port := "http", "80"
	if r.TLS != nil {
		scheme, port = "https", "443"
	}
	if _, p, err := net.SplitHostPort(r.Host); err == nil {
		port = p
	}
	out["host"] = r.Host
	out["content-length"] = strconv.Itoa(bodyLen)
	out["x-forwarded-proto"] = scheme
	out["x-forwarded-port"] = port
	if before := out["x-forwarded-for"]; before != "" {
		out["x-forwarded-for"] = before + ", " + peer
	} else {
		out["x-forwarded-for"] = peer
	}
	if out["x-amzn-trace-id"] == "" {
		out["x-amzn-trace-id"] = traceID(unix)
	}
	return out
}

// traceID is an X-Ray root: version, seconds in hex, 96 random bits.
func traceID(unix int64) string {
	return fmt.Sprintf("Root=1-%08x-%s", unix, randomHex(12))
}

// isText says which bodies an HTTP API passes as text. AWS does not list the
// types; these were observed by others on AWS, form posts and a missing type
// being binary.
func isText(contentType string) bool {
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	switch mediaType {
	case "application/json", "application/xml", "application/javascript":
		return true
	}
	return strings.HasPrefix(mediaType, "text/")
}

func hostOnly(hostPort string) string {
	if host, _, err := net.SplitHostPort(hostPort); err == nil {
		return host
	}
	return hostPort
}
