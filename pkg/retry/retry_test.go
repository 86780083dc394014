package retry

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNext(t *testing.T) {
	for _, c := range []struct {
		failures, max int
		retryable     bool
		want          Verdict
	}{
		{1, 3, true, Retry}, {2, 3, true, Retry}, {3, 3, true, Quarantine}, {4, 3, true, Quarantine},
		{1, 3, false, Fail}, {3, 3, false, Fail}, {1, 1, true, Quarantine}, {1, 0, true, Quarantine}, {0, -1, true, Retry},
	} {
		if got := Next(c.failures, c.max, c.retryable); got != c.want {
			t.Errorf("Next(%d, %d, %v) = %s, want %s", c.failures, c.max, c.retryable, got, c.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		failures  int
		base, cap int64
		u         float64
		want      int64
	}{
		{1, 1_000, 60_000, 0, 0}, {1, 1_000, 60_000, 0.5, 500}, {1, 1_000, 60_000, 0.99999, 1_000},
		{3, 1_000, 60_000, 0.5, 2_000}, {7, 1_000, 60_000, 1, 60_000}, {0, 1_000, 60_000, 1, 1_000}, {-9, 1_000, 60_000, 1, 1_000},
		{1_000_000, 1_000, 60_000, 1, 60_000}, {64, 1, math.MaxInt64, 1, math.MaxInt64}, {63, 1, math.MaxInt64, 1, 1 << 62},
		{5, 0, 60_000, 1, 0}, {5, -1, -1, 1, 0}, {5, 1_000, 0, 1, 0}, {1, 1_000, 60_000, math.NaN(), 0}, {1, 1_000, 60_000, 9, 1_000},
	} {
		if got := Backoff(c.failures, c.base, c.cap, c.u); got != c.want {
			t.Errorf("Backoff(%d, %d, %d, %v) = %d, want %d", c.failures, c.base, c.cap, c.u, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n, base, top := rapid.Int().Draw(t, "n"), rapid.Int64().Draw(t, "base"), rapid.Int64().Draw(t, "cap")
		if got := Backoff(n, base, top, rapid.Float64().Draw(t, "u")); got < 0 || got > max(top, 0) {
			t.Fatalf("backoff %d with cap %d", got, top)
		}
	})
}

func ExampleShape() {
	fmt.Println(Shape(`2024-05-06T07:08:09.123Z order 4711: POST https://api.example.com/v2/orders/99?key=abc: status 503`))
	// Output:
	// # order # post https api example com # orders # status #
}

func TestSameFailureSameSignature(t *testing.T) {
	for name, messages := range map[string][]string{
		"numbers":          {"row 5 of 10 failed", "row 77,123 of 99 failed", "row -5 of 3.14 failed"},
		"uuid":             {"task 550e8400-e29b-41d4-a716-446655440000 not found", "task abcdefab-cdef-abcd-efab-cdefabcdefab not found"},
		"ulid":             {"task 01ARZ3NDEKTSV4RRFFQ69G5FAV not found", "task 01BX5ZZKBKACTAV9WEVGEMMVRZ not found"},
		"nanoid":           {"no upload V1StGXR8_Z5jdHi6B-myT", "no upload 9f-XX_aa0"},
		"prefixed id":      {"task_9f3 is gone", "task_12345 is gone"},
		"hex":              {"bad digest deadbeefcafe", "bad digest 0123abcd", "bad digest 0xDEADBEEF"},
		"pointer":          {"nil at 0xc000012345", "nil at 0xdeadbeef"},
		"IPv4":             {"dial tcp 10.0.0.1:5432: connection refused", "dial tcp 192.168.77.3:40000: connection refused"},
		"IPv6":             {"dial tcp [fe80::1]:5432: refused", "dial tcp [dead:beef::cafe]:80: refused", "dial tcp [::1]:80: refused"},
		"MAC":              {"no lease for aa:bb:cc:dd:ee:ff", "no lease for 00:11:22:33:44:55"},
		"mail":             {"cannot deliver to ann@example.com", "cannot deliver to <bob.b@mail.example.org>"},
		"timestamps":       {"late since 2024-01-02T03:04:05Z", "late since 2024-01-02 03:04:05.678 UTC", "late since Mon Jan 2 15:04:05 2006", "late since 2 Jan 2006 3:04 PM"},
		"durations":        {"timed out after 3.5s", "timed out after 1m30s", "timed out after 30 seconds", "timed out after 200 ms"},
		"double quotes":    {`no column "price"`, `no column "a \"b\" c, d"`, `no column ""`},
		"single quotes":    {`no column 'price'`, `no column 'it's a name'`},
		"backquotes":       {"no table `a`", "no table `b c d`"},
		"typographic":      {"no table “a b”", "no table “it is”"},
		"paths":            {"open /var/data/123/in.csv: no such file", "open /var/data/a9-7/in.csv: no such file"},
		"URL query":        {"GET https://x.example/v1/a?token=abc failed", "GET https://x.example/v1/a?token=xyz&b=c failed"},
		"lists":            {"missing ids [1, 2, 3]", "missing ids [4]"},
		"long quoted text": {`bad body "` + strings.Repeat("some text ", 800) + `" sent`, `bad body "` + strings.Repeat("other ", 900) + `" sent`},
		"cut in a word":    {strings.Repeat("12 ", 1364) + "a beheaded", strings.Repeat("12 ", 1363) + "123 a behead"},
		"case":             {"Connection Refused", "connection refused"},
		"after the limits": {"bad input: " + strings.Repeat("word ", 2000) + "a", "bad input: " + strings.Repeat("word ", 2000) + "b"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, m := range messages[1:] {
				if Signature("c", m) != Signature("c", messages[0]) {
					t.Errorf("%q is %q,\n%q is %q", messages[0], Shape(messages[0]), m, Shape(m))
				}
			}
		})
	}
}

func TestDifferentFailuresDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, m := range []string{
		"connection refused", "connection reset by peer", "row 5 failed", "row failed", "column 5 failed",
		"can't open file", "can't read file", "it may fail", "it will fail", "the sun is down", "a decade late",
		"open /var/data/1/in.csv: no such file", "open /var/logs/1/in.csv: no such file", "", "user's quota", "user's name",
	} {
		s := Signature("c", m)
		if other, ok := seen[s]; ok {
			t.Errorf("%q and %q are one (%q)", other, m, Shape(m))
		}
		seen[s] = m
	}
	if Signature("a", "x") == Signature("b", "x") {
		t.Error("the code does not count")
	}
	if got := Signature("timeout", "timed out after 30s"); got != "c2ad3c72bc21b7e0" {
		t.Errorf("signature %s: stored ones would no longer match", got)
	}
}

// Ids of every kind may stand anywhere without changing the signature.
func TestIdsNeverShowInTheSignature(t *testing.T) {
	id := rapid.OneOf(
		rapid.StringMatching(`[0-9]{1,12}`), rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`),
		rapid.StringMatching(`[a-zA-Z]{0,6}[0-9][a-zA-Z0-9_]{0,20}`), rapid.StringMatching(`[0-9a-f]{8,64}`),
		rapid.StringMatching(`(25[0-5]|1?[0-9]{1,2})\.[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{1,2}:[0-9]{2,5}`),
		rapid.StringMatching(`0x[0-9a-f]{1,16}`), rapid.StringMatching(`"[a-z ]{0,20}"`),
	)
	template := rapid.StringMatching(`([a-z]{2,9} ){0,3}(at|id=|of|\[|row: |\()%s(\]|\)|:|,)?( [a-z]{2,9}){0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		form := strings.ReplaceAll(template.Draw(t, "template"), "at%s", "at %s")
		form = strings.ReplaceAll(form, "of%s", "of %s")
		a, b := strings.ReplaceAll(form, "%s", id.Draw(t, "a")), strings.ReplaceAll(form, "%s", id.Draw(t, "b"))
		if Signature("c", a) != Signature("c", b) {
			t.Fatalf("%q is %q,\n%q is %q", a, Shape(a), b, Shape(b))
		}
	})
}

func FuzzSignature(f *testing.F) {
	f.Add("code", `open "x" at 10.0.0.1: it's 'gone' [::1]`)
	f.Add("", "\xff\xfe'\\")
	f.Fuzz(func(t *testing.T, code, message string) {
		if s := Signature(code, message); len(s) != 16 || s != Signature(code, message) {
			t.Fatalf("signature %q", s)
		}
		if again := Shape(strings.ToUpper(message)); message == strings.ToLower(message) && isASCII(message) && again != Shape(message) {
			t.Fatalf("case counts: %q, %q", Shape(message), again)
		}
	})
}

// A message made of opening quotes must not cost a search to its end for each of them.
func BenchmarkSignatureHostile(b *testing.B) {
	message := strings.Repeat("“ ", 1000)
	for b.Loop() {
		Signature("c", message)
	}
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 127 }) < 0
}

func BenchmarkSignature(b *testing.B) {
	for b.Loop() {
		Signature("timeout", `2024-05-06T07:08:09.123Z order 4711: POST https://api.example.com/v2/orders/99?key=abc: status 503 "x y"`)
	}
}
