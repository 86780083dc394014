package intake_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/apitest"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
)

// faultsOf decodes a body and returns the places of its faults.
func faultsOf(t *testing.T, body string, h intake.Header) []string {
	t.Helper()
	_, refusal := intake.Decode([]byte(body), h, rig.Config(t))
	if refusal == nil {
		return nil
	}
	if refusal.Code != events.InvalidRequest {
		t.Fatalf("%.80s: %v", body, refusal)
	}
	var out []string
	for _, f := range refusal.Faults {
		if f.Detail == "" {
			t.Errorf("the fault at %q has no text", f.Pointer)
		}
		out = append(out, f.Pointer)
	}
	return out
}

func TestFaultsOfABodyAreNamedWhereTheyAre(t *testing.T) {
	deep := func(n int) string {
		return `{"class":"a","payload":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	for name, c := range map[string]struct {
		body string
		want string // pointers, joined; "ok" for none
	}{
		"a whole task":              {`{"class":"a","payload":{"x":1},"deadline_seconds":1.5,"priority":"high","hints":{"rows":3},"ordering_key":"k"}`, "ok"},
		"empty":                     {"", ""},
		"blank":                     {" \n", ""},
		"no JSON":                   {"{", ""},
		"text behind":               {`{"class":"a"} x`, ""},
		"two values":                {`{"class":"a"}{}`, ""},
		"invalid UTF-8":             {"{\"class\":\"a\xff\"}", ""},
		"NaN":                       {`{"class":"a","deadline_seconds":NaN}`, ""},
		"an array":                  {`[]`, ""},
		"null":                      {`null`, ""},
		"no class":                  {`{}`, "/class"},
		"class of a wrong type":     {`{"class":1}`, "/class"},
		"empty class":               {`{"class":""}`, "/class"},
		"class with control":        {`{"class":"a\u0007"}`, "/class"},
		"class too long":            {`{"class":"` + strings.Repeat("a", 65) + `"}`, "/class"},
		"unknown field":             {`{"class":"a","tenant":"beta"}`, "/tenant"},
		"escaped pointer":           {`{"class":"a","a/b~c":1}`, "/a~1b~0c"},
		"duplicate key":             {`{"class":"a","class":"b"}`, "/class"},
		"duplicate by escape":       {`{"class":"a","cl\u0061ss":"b"}`, "/class"},
		"duplicate inside":          {`{"class":"a","payload":[{"x":1,"x":1}]}`, "/payload/0/x"},
		"all faults at once":        {`{"class":1,"deadline_seconds":-1,"priority":"urgent","hints":{"rows":-1,"n":"x"},"zzz":0}`, "/class /deadline_seconds /hints/n /hints/rows /priority /zzz"},
		"zero deadline":             {`{"class":"a","deadline_seconds":0}`, "/deadline_seconds"},
		"negative deadline":         {`{"class":"a","deadline_seconds":-0.5}`, "/deadline_seconds"},
		"deadline below a ms":       {`{"class":"a","deadline_seconds":0.0004}`, "/deadline_seconds"},
		"deadline of a ms":          {`{"class":"a","deadline_seconds":0.001}`, "ok"},
		"deadline 1e400":            {`{"class":"a","deadline_seconds":1e400}`, "/deadline_seconds"},
		"deadline −1e400":           {`{"class":"a","deadline_seconds":-1e400}`, "/deadline_seconds"},
		"deadline 1e-400":           {`{"class":"a","deadline_seconds":1e-400}`, "/deadline_seconds"},
		"deadline too long":         {`{"class":"a","deadline_seconds":1209600.5}`, "/deadline_seconds"},
		"deadline, a hair too long": {`{"class":"a","deadline_seconds":1209600.0001}`, "/deadline_seconds"},
		"deadline of 14 days":       {`{"class":"a","deadline_seconds":1209600}`, "ok"},
		"deadline as text":          {`{"class":"a","deadline_seconds":"5"}`, "/deadline_seconds"},
		"null deadline":             {`{"class":"a","deadline_seconds":null}`, "/deadline_seconds"},
		"null payload":              {`{"class":"a","payload":null}`, "ok"},
		"1e400 in the payload":      {`{"class":"a","payload":1e400}`, "ok"},
		"hints of a wrong type":     {`{"class":"a","hints":[]}`, "/hints"},
		"a fraction as hint":        {`{"class":"a","hints":{"rows":1.5}}`, "/hints/rows"},
		"a whole number, written":   {`{"class":"a","hints":{"rows":1.50e1}}`, "ok"},
		"hint 2^53 − 1":             {`{"class":"a","hints":{"rows":9007199254740991}}`, "ok"},
		"hint 2^53":                 {`{"class":"a","hints":{"rows":9007199254740992}}`, "/hints/rows"},
		"hint 1e400":                {`{"class":"a","hints":{"rows":1e400}}`, "/hints/rows"},
		"hint of a long name":       {`{"class":"a","hints":{"` + strings.Repeat("é", 64) + `":1}}`, "ok"},
		"hint of too long a name":   {`{"class":"a","hints":{"` + strings.Repeat("é", 65) + `":"x"}}`, "/hints"},
		"hint without a name":       {`{"class":"a","hints":{"":1}}`, "/hints"},
		"hint with a tab in it":     {`{"class":"a","hints":{"a\tb":1}}`, "/hints"},
		"17 hints":                  {`{"class":"a","hints":{` + seventeen() + `}}`, "/hints"},
		"64 levels":                 {deep(63), "ok"},
		"65 levels":                 {deep(64), ""},
		"10,000 levels":             {deep(10_000), ""},
		"ordering key, too long":    {`{"class":"a","ordering_key":"` + strings.Repeat("é", 256) + `"}`, "/ordering_key"},
		"ordering key":              {`{"class":"a","ordering_key":"` + strings.Repeat("é", 255) + `"}`, "ok"},
	} {
		got := faultsOf(t, c.body, intake.Header{})
		if joined := strings.Join(got, " "); (c.want == "ok") != (got == nil) || got != nil && joined != c.want {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
	}
}

func seventeen() string {
	var b []string
	for i := range 17 {
		b = append(b, fmt.Sprintf(`"h%d":1`, i))
	}
	return strings.Join(b, ",")
}

func TestIdempotencyKeysArePrintableASCII(t *testing.T) {
	for key, ok := range map[string]bool{"a": true, "a ~": true, strings.Repeat("k", 255): true, "": false, strings.Repeat("k", 256): false,
		"a\x1f": false, "a\x7f": false, "ü": false, "a\n": false} {
		got := faultsOf(t, `{"class":"a"}`, intake.Header{IdempotencyKey: key, HasIdempotencyKey: true})
		if (got == nil) != ok || !ok && got[0] != "header:Idempotency-Key" {
			t.Errorf("%q: %q", key, got)
		}
	}
	if got := faultsOf(t, `{"class":1}`, intake.Header{HasIdempotencyKey: true}); strings.Join(got, " ") != "/class header:Idempotency-Key" {
		t.Errorf("header and body together: %q", got)
	}
}

func TestBodiesAndPayloadsHaveASize(t *testing.T) {
	cfg := rig.Config(t)
	for name, c := range map[string]struct {
		body string
		want events.Code
	}{
		"payload at its most": {`{"class":"a","payload":"` + strings.Repeat("x", intake.MaxPayload-2) + `"}`, ""},
		"one byte more":       {`{"class":"a","payload":"` + strings.Repeat("x", intake.MaxPayload-1) + `"}`, events.PayloadTooLarge},
		"blanks do not count": {`{"class":"a","payload":[` + strings.Repeat(" ", intake.MaxPayload) + `]}`, ""},
		"2 MB":                {strings.Repeat(" ", 2<<20), events.PayloadTooLarge},
	} {
		s, refusal := intake.Decode([]byte(c.body), intake.Header{}, cfg)
		switch {
		case refusal != nil && refusal.Code != c.want || refusal == nil && c.want != "":
			t.Errorf("%s: %v", name, refusal)
		case refusal == nil && !json.Valid([]byte(s.Payload)):
			t.Errorf("%s: payload %.40q", name, s.Payload)
		}
	}
}

func hashOf(t fataler, body string) string {
	s, refusal := intake.Decode([]byte(body), intake.Header{}, config)
	if refusal != nil {
		t.Fatalf("%s: %v", body, refusal)
	}
	return s.RequestHash
}

// TestEqualJSONIsTheSameRequest: what the idempotency key compares.
func TestEqualJSONIsTheSameRequest(t *testing.T) {
	body := func(payload string) string { return `{"class":"a","payload":` + payload + `}` }
	for _, group := range [][]string{
		{"1", "1.0", "1e0", "10e-1", "0.1E+1", "1.000", "100e-2"},
		{"0", "-0", "0.0", "0e5", "-0.00e-7"},
		{"-1.5", "-15e-1", "-1.50"},
		{"1e400", "10e399", "0.1e401", "1.0E+400"},
		{`{"x":1,"y":[2,3]}`, `{ "y":[2 , 3.0],"x":1e0 }`},
		{`"é/"`, `"\u00e9\/"`},
	} {
		for _, other := range group[1:] {
			if hashOf(t, body(group[0])) != hashOf(t, body(other)) {
				t.Errorf("%s and %s count as different", group[0], other)
			}
		}
	}
	different := []string{"1", "10", "-1", "0", "0.1", `"1"`, "true", "null", "[1]", "[[1]]", "[1,1]", `{"x":1}`, `{"x":[1]}`, `{"y":1}`, "1e400", "1e401", "9007199254740992", "9007199254740993", `"1e0"`, `"a,b"`, `["a","b"]`}
	for i, a := range different {
		for _, b := range different[i+1:] {
			if hashOf(t, body(a)) == hashOf(t, body(b)) {
				t.Errorf("%s and %s count as the same", a, b)
			}
		}
	}
	if hashOf(t, `{"class":"a","deadline_seconds":1}`) != hashOf(t, `{"deadline_seconds":1.0,"class":"a"}`) {
		t.Error("the order of keys counts")
	}
	if hashOf(t, `{"class":"a"}`) == hashOf(t, `{"class":"a","deadline_seconds":1}`) {
		t.Error("the deadline does not count")
	}
}

// TestNumbersHashByTheirValue: any number written in two ways.
func TestNumbersHashByTheirValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		digits := strings.TrimLeft(rapid.StringMatching(`[1-9][0-9]{0,20}`).Draw(t, "digits"), "0")
		exp, zeros := rapid.IntRange(-50, 50).Draw(t, "exponent"), rapid.IntRange(0, 5).Draw(t, "zeros")
		plain := fmt.Sprintf("%se%d", digits, exp)
		point := rapid.IntRange(1, len(digits)).Draw(t, "point")
		other := fmt.Sprintf("%s.%s%sE%d", digits[:point], digits[point:], strings.Repeat("0", zeros+1), exp+len(digits)-point)
		body := `{"class":"a","payload":%s}`
		if hashOf(t, fmt.Sprintf(body, plain)) != hashOf(t, fmt.Sprintf(body, other)) {
			t.Fatalf("%s and %s count as different", plain, other)
		}
		if more := plain[:len(digits)-1] + string('0'+(digits[len(digits)-1]-'0'+1)%10) + plain[len(digits):]; hashOf(t, fmt.Sprintf(body, plain)) == hashOf(t, fmt.Sprintf(body, more)) {
			t.Fatalf("%s and %s count as the same", plain, more)
		}
	})
}

// outOfRange says whether a body has a number that no float holds. The document
// cannot judge those: its validator takes them for texts.
func outOfRange(body string) bool {
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if n, ok := token.(json.Number); ok {
			_, exponent, _ := strings.Cut(strings.ToLower(n.String()), "e")
			if _, err := n.Float64(); err != nil || len(exponent) > 4 || len(n) > 400 {
				return true
			}
		}
	}
}

type fataler interface {
	Fatalf(format string, args ...any)
}

// FuzzDecode holds the decoder against the document: it accepts exactly what
// the schema accepts, and what it accepts is what the body says.
func FuzzDecode(f *testing.F) {
	cfg := rig.Config(f)
	v, err := apitest.New()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{`{"class":"short"}`, `{"class":"a","payload":[1,{"x":null}],"deadline_seconds":1e1,"priority":"low","hints":{"rows":1},"ordering_key":"k"}`,
		`{"class":"a","class":"b"}`, `{"class":"a","payload":1e400}`, `{"class":"a","deadline_seconds":1e400}`, `[[[[`, "\"\xff\"", `{"class":"\ud800"}`,
		`{"class":"a","hints":{"":1}}`, `{"class":"a","deadline_seconds":0.0005}`, `{"class":"a","ordering_key":"\u007f"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > 4096 {
			return
		}
		s, refusal := intake.Decode([]byte(body), intake.Header{}, cfg)
		wrong, err := v.BodyFaults("POST", "/v1/tasks", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if (refusal == nil) != (len(wrong) == 0) && !outOfRange(body) {
			t.Fatalf("decoded %q: %v; the document says %v", body, refusal, wrong)
		}
		if refusal != nil {
			return
		}
		var plain struct {
			Class    string          `json:"class"`
			Payload  json.RawMessage `json:"payload"`
			Priority string          `json:"priority"`
		}
		if err := json.Unmarshal([]byte(body), &plain); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if s.Class != plain.Class || s.Priority != plain.Priority || s.Payload != "" && !json.Valid([]byte(s.Payload)) || s.DeadlineMS < 0 {
			t.Fatalf("%q decoded as %+v", body, s)
		}
		again := hashOf(t, body)
		if again != s.RequestHash {
			t.Fatalf("%q hashes as %s, then as %s", body, s.RequestHash, again)
		}
	})
}
