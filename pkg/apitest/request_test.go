package apitest_test

import (
	"slices"
	"strings"
	"testing"
)

func TestBodyFaults(t *testing.T) {
	t.Parallel()
	v := validator(t)
	for body, want := range map[string][]string{
		`{"class":"mail.send","payload":[{"a":1},{"a":1}],"hints":{"rows":1},"deadline_seconds":0.001}`: nil,
		``:                                       {""},
		`{"class":NaN}`:                          {""},
		`[]`:                                     {""},
		`{}`:                                     {"/class"},
		"{\"class\":\"a\",\"payload\":\"\xff\"}": {""},
		`{"class":"a","class":"b"}`:              {"/class"},
		`{"class":"a","payload":[1,{"x":[2,{"a/b":1,"c":2,"a/b":3}]}]}`:                     {"/payload/1/x/1/a~1b"},
		`{"class":"a","payload":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`: {""},
		`{"class":5,"deadline_seconds":-1,"hints":{"rows":-1},"tenant":"x","~":1}`:          {"/class", "/deadline_seconds", "/hints/rows", "/tenant", "/~0"},
		`{"class":"a","deadline_seconds":1e999999999999,"hints":{"x":-1E-99999999}}`:        {"/deadline_seconds", "/hints/x"},
		`{"class":"a","payload":1e999999999999}`:                                            nil,
		`{"class":"a","deadline_seconds":1e400}`:                                            {"/deadline_seconds"},
	} {
		faults, err := v.BodyFaults("POST", "/v1/tasks", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range faults {
			got = append(got, f.Pointer)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%.80s: faults at %q, want %q", body, got, want)
		}
	}
	if _, err := v.BodyFaults("GET", "/v1/tasks", nil); err == nil {
		t.Error("a call without a body has one")
	}
}
