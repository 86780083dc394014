package shape

import (
	"net/url"
	"strings"
	"unicode"
)

// Form is a syntax of text. Pattern is the same in a regular expression, for the JSON Schema; a test holds the two together.
// (The hand-written check keeps the compilation of expressions out of a cold start.)
type Form struct {
	Says    string // completes "must be …"
	Pattern string
	Longest int // characters; 0: the pattern says it
	Valid   func(string) bool
}

// Forms are the syntaxes a rule may ask for.
var Forms = map[string]Form{
	"name": {"a lower-case letter, then at most 31 lower-case letters, digits or hyphens",
		`^[a-z][a-z0-9-]{0,31}$`, 0, func(s string) bool { return word(s, 32, "-") }},
	"hint": {"a lower-case letter, then at most 31 lower-case letters, digits or underscores",
		`^[a-z][a-z0-9_]{0,31}$`, 0, func(s string) bool { return word(s, 32, "_") }},
	"class": {"lower-case words of letters, digits, hyphens and underscores joined by dots, at most 64 characters, the first a letter",
		`^[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*$`, 64, class},
	"text": {"1 to 128 printable characters, without space at its ends",
		`^\S(.*\S)?$`, 128, text},
	"key": {"8 to 128 printable ASCII characters without space",
		`^[!-~]{8,128}$`, 0, func(s string) bool { return len(s) >= 8 && len(s) <= 128 && visible(s) }},
	"arn": {"an ARN of a Lambda function",
		`^arn:[!-~]*:lambda:[!-~]+$`, 0, arn},
	"url": {"an absolute http or https URL",
		`^https?://[!-~]+$`, 0, absoluteURL},
	"signal": {"dependency.NAME.METRIC, METRIC being error_share, share_429, latency_p95 or signal",
		`^dependency\.[a-z][a-z0-9-]{0,31}\.(error_share|share_429|latency_p95|signal)$`, 0, func(s string) bool {
			_, _, ok := SplitSignal(s)
			return ok
		}},
}

// SplitSignal takes dependency.NAME.METRIC apart.
func SplitSignal(s string) (dependency, metric string, ok bool) {
	s, ok = strings.CutPrefix(s, "dependency.")
	if !ok {
		return "", "", false
	}
	dependency, metric, _ = strings.Cut(s, ".")
	switch metric {
	case "error_share", "share_429", "latency_p95", "signal":
		return dependency, metric, word(dependency, 32, "-")
	}
	return "", "", false
}

func lower(c byte) bool { return c >= 'a' && c <= 'z' }

func word(s string, most int, extra string) bool {
	return s != "" && len(s) <= most && lower(s[0]) && runs(s, extra)
}

func runs(s, extra string) bool {
	for i := range len(s) {
		if c := s[i]; !lower(c) && (c < '0' || c > '9') && strings.IndexByte(extra, c) < 0 {
			return false
		}
	}
	return true
}

func class(s string) bool {
	if s == "" || len(s) > 64 || !lower(s[0]) {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || !runs(part, "-_") {
			return false
		}
	}
	return true
}

func text(s string) bool {
	n := 0
	for _, r := range s {
		if n++; !unicode.IsPrint(r) {
			return false
		}
	}
	return n >= 1 && n <= 128 && strings.TrimSpace(s) == s
}

func visible(s string) bool {
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return true
}

func arn(s string) bool {
	if !strings.HasPrefix(s, "arn:") || !visible(s) {
		return false
	}
	_, name, ok := strings.Cut(s[len("arn"):], ":lambda:")
	return ok && name != ""
}

func absoluteURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && visible(s)
}
