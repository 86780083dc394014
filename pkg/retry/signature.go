package retry

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// scanBytes and shapeWords bound how much of a message counts: what an error is stands at its beginning.
	scanBytes  = 4096
	shapeWords = 48
)

// Signature returns a fingerprint of an error, 16 hexadecimal digits: equal for messages that differ only in ids,
// UUIDs, numbers, hexadecimal strings, addresses, timestamps, quoted text, URL queries and parts of paths with digits,
// and independent of case and punctuation. The code counts as it is.
func Signature(code, message string) string {
	sum := sha256.Sum256([]byte(code + "\x00" + Shape(message)))
	return hex.EncodeToString(sum[:8])
}

// variable stands in a shape for whatever differs from one occurrence of an error to the next.
const variable = "#"

// Shape returns what of a message its signature sees: lower-case words separated by blanks, with # for one or more
// variable parts in a row.
func Shape(message string) string {
	cut := len(message) > scanBytes
	if cut {
		message = message[:scanBytes]
	}
	var s shaper
	unclosed := "" // opening quotes that nothing closes any more; not to be searched for again and again
	for message != "" && len(s.words) < shapeWords {
		r, size := utf8.DecodeRuneInString(message)
		if opens(r, s.inWord) && !strings.ContainsRune(unclosed, r) {
			if n := quoted(message, r, size); n > 0 {
				s.add(variable)
				message = message[n:]
				s.inWord = false
				continue
			}
			if cut { // it may have been closed beyond the cut
				s.add(variable)
				break
			}
			unclosed += string(r)
		}
		if unicode.IsSpace(r) || strings.ContainsRune("()<>{},;\"`", r) {
			message = message[size:]
			s.inWord = false
			continue
		}
		n := chunk(message)
		if cut && n == len(message) {
			break // perhaps only a part of a word
		}
		s.chunk(message[:n])
		message = message[n:]
		s.inWord = true
	}
	return strings.Join(s.words, " ")
}

// closers maps an opening quote to the one that ends it.
var closers = map[rune]rune{'"': '"', '`': '`', '\'': '\'', '“': '”', '‘': '’', '«': '»'}

// opens reports whether r begins quoted text: an apostrophe in a word does not.
func opens(r rune, inWord bool) bool {
	_, ok := closers[r]
	return ok && !(inWord && r == '\'')
}

// quoted returns the length of the text that r, of the given size, quotes at the start of s, with its quotes; 0 if it is
// never closed.
func quoted(s string, r rune, size int) int {
	closer := closers[r]
	escaped := false
	for i, c := range s[size:] {
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == closer:
			end := size + i + utf8.RuneLen(c)
			next, _ := utf8.DecodeRuneInString(s[end:])
			if closer == '\'' && end < len(s) && wordRune(next) {
				continue // an apostrophe inside
			}
			return end
		}
	}
	return 0
}

// chunk returns the length of what stands up to the next blank, bracket or quote; at least one rune.
func chunk(s string) int {
	before := ' '
	for i, r := range s {
		_, quote := closers[r]
		apostrophe := r == '\'' && wordRune(before)
		if i > 0 && (unicode.IsSpace(r) || strings.ContainsRune("()<>{},;", r) || quote && !apostrophe) {
			return i
		}
		before = r
	}
	return len(s)
}

type shaper struct {
	words  []string
	inWord bool
}

func (s *shaper) add(word string) {
	if n := len(s.words); word == variable && n > 0 {
		if s.words[n-1] == variable {
			return
		}
		// The names in timestamps: "Mon Jan 2", "2 Jan". Only beside something variable, since "may" is a word.
		for n > 0 && dateNames[s.words[n-1]] {
			n--
		}
		s.words = s.words[:n]
		if n > 0 && s.words[n-1] == variable {
			return
		}
	}
	if n := len(s.words); n > 0 && s.words[n-1] == variable && (dateNames[word] || dateTails[word]) {
		return
	}
	s.words = append(s.words, word)
}

// chunk adds the words of a piece without blanks.
func (s *shaper) chunk(c string) {
	if address(c) {
		s.add(variable)
		return
	}
	if strings.Contains(c, "://") {
		if i := strings.IndexAny(c, "?#"); i >= 0 {
			c = c[:i]
		}
	}
	for c != "" {
		start := strings.IndexFunc(c, wordRune)
		if start < 0 {
			return
		}
		c = c[start:]
		end := strings.IndexFunc(c, func(r rune) bool { return !wordRune(r) && r != '_' && r != '-' })
		if end < 0 {
			end = len(c)
		}
		s.run(strings.Trim(c[:end], "_-"))
		c = c[end:]
	}
}

// run adds a run of letters, digits, dashes and underscores: variable as a whole if it contains a digit or is an id.
func (s *shaper) run(w string) {
	if strings.IndexFunc(w, unicode.IsNumber) >= 0 || uuidLike(w) {
		s.add(variable)
		return
	}
	for _, part := range strings.FieldsFunc(w, func(r rune) bool { return r == '_' || r == '-' }) {
		if len(part) >= 8 && hexOnly(part, "") {
			s.add(variable)
			continue
		}
		s.add(strings.ToLower(part))
	}
}

// address recognises what has no digit to be known by: mail, IPv6 and hardware addresses.
func address(c string) bool {
	c = strings.Trim(c, "[].:=")
	if at := strings.IndexByte(c, '@'); at > 0 && at < len(c)-1 {
		return true
	}
	host, _, _ := strings.Cut(c, "]") // [address]:port
	return strings.Count(host, ":") >= 2 && hexOnly(host, ":.%")
}

// uuidLike recognises a UUID that happens to have no digit.
func uuidLike(w string) bool {
	return len(w) == 36 && w[8] == '-' && w[13] == '-' && w[18] == '-' && w[23] == '-' && hexOnly(w, "-")
}

func hexOnly(s, also string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if !(c >= 'a' && c <= 'f' || s[i] >= '0' && s[i] <= '9' || strings.IndexByte(also, s[i]) >= 0) {
			return false
		}
	}
	return s != ""
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

var (
	dateNames = set("jan feb mar apr may jun jul aug sep oct nov dec mon tue wed thu fri sat sun")
	dateTails = set("utc gmt cet cest est edt pst pdt z am pm ms s sec secs seconds us µs ns kb mb gb kib mib gib bytes")
)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}
