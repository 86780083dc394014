package apitest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// printer words the complaints of schemas.
var printer = message.NewPrinter(language.English)

// rules are what the document says in words: relations that a schema cannot state. op is nil outside of operations.
func rules(op *operation, path string, status int, header http.Header, body map[string]any) []error {
	if status >= 400 {
		return problemRules(status, header, body)
	}
	if op == nil {
		return nil
	}
	switch op.id {
	case "submitTask", "getTask", "cancelTask", "retryTask":
		return taskRules(op.id, path, header, body)
	case "quote":
		decision, _ := body["decision"].(map[string]any)
		if decision["code"] != body["outcome"] {
			return []error{fmt.Errorf("outcome is %v, decision.code is %v", body["outcome"], decision["code"])}
		}
	case "listTasks":
		return pageRules(body)
	}
	return nil
}

func problemRules(status int, header http.Header, body map[string]any) []error {
	var faults []error
	name, _ := body["code"].(string)
	code := events.Code(name)
	if got := fmt.Sprint(body["status"]); got != fmt.Sprint(status) {
		faults = append(faults, fmt.Errorf("the body says status %s", got))
	}
	if body["type"] != events.ProblemType+name {
		faults = append(faults, fmt.Errorf("type %v does not belong to code %s", body["type"], name))
	}
	if code.Status() != status {
		faults = append(faults, fmt.Errorf("code %s belongs to status %d", name, code.Status()))
	}
	inBody := ""
	if seconds, ok := body["retry_after_seconds"]; ok {
		inBody = fmt.Sprint(seconds)
	}
	if inHeader := header.Get("Retry-After"); inBody != inHeader {
		faults = append(faults, fmt.Errorf("Retry-After is %q, retry_after_seconds is %q", inHeader, inBody))
	}
	if decision, ok := body["decision"].(map[string]any); ok && decision["code"] != name {
		faults = append(faults, fmt.Errorf("code is %s, decision.code is %v", name, decision["code"]))
	}
	return faults
}

func taskRules(op, path string, header http.Header, body map[string]any) []error {
	var faults []error
	id, _ := body["id"].(string)
	links, _ := body["links"].(map[string]any)
	if links["self"] != events.TaskPath(id) || links["cancel"] != events.TaskPath(id)+"/cancel" {
		faults = append(faults, fmt.Errorf("links %v are not those of task %s", links, id))
	}
	if op == "submitTask" || op == "retryTask" {
		if at := header.Get("Location"); at != "" && at != events.TaskPath(id) {
			faults = append(faults, fmt.Errorf("header Location %s is not that of task %s", at, id))
		}
	}
	if op != "submitTask" && op != "retryTask" { // a failed task's retry is another task
		if asked := strings.Split(path, "/"); len(asked) < 4 || asked[3] != id {
			faults = append(faults, fmt.Errorf("the answer is task %s", id))
		}
	}
	if op == "getTask" {
		state, _ := body["state"].(string)
		if live, has := events.State(state).Live(), header.Get("Retry-After") != ""; live != has {
			faults = append(faults, fmt.Errorf("state %s: Retry-After present is %v, should be %v", state, has, live))
		}
	}
	return faults
}

// pageRules: a page is ordered by id, and each id is there once.
func pageRules(body map[string]any) []error {
	items, _ := body["items"].([]any)
	last := ""
	for _, item := range items {
		task, _ := item.(map[string]any)
		id, _ := task["id"].(string)
		if id <= last {
			return []error{fmt.Errorf("id %s comes after %s", id, last)}
		}
		last = id
	}
	return nil
}
