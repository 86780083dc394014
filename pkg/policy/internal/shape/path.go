package shape

import (
	"strconv"
	"strings"
)

// Key appends a key to a path: a.b, or a["b.c"] where the key is not a plain word.
func Key(path, key string) string {
	plain := key != "" && runs(strings.ToLower(key), "-_")
	switch {
	case !plain:
		return path + "[" + quote(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// Index appends a position, counted from 0, to a path.
func Index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Above yields the path and every path that contains it, the nearest first, the root ("") last.
func Above(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var cuts []int
		quoted := false
		for i := 0; i < len(path); i++ {
			switch c := path[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case !quoted && i > 0 && (c == '.' || c == '['):
				cuts = append(cuts, i)
			}
		}
		if !yield(path) {
			return
		}
		for i := len(cuts) - 1; i >= 0; i-- {
			if !yield(path[:cuts[i]]) {
				return
			}
		}
		if path != "" {
			yield("")
		}
	}
}
