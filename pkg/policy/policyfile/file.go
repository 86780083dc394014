// Package policyfile loads a configuration from a YAML file.
//
// What it guarantees: every fault of a file is reported together, each with its line and column, unless the text is no
// YAML at all, in which case the first syntax error is. Nothing beyond the known keys is accepted: no unknown or repeated
// keys, no anchors, aliases, tags, merge keys or further documents, no numbers in forms that people read differently
// (010, 0x10, 1_000), and nothing is converted: NO is text, and "5" is not a number. Parse never panics. It is meant for an
// operator's own file of MaxBytes at most (a thousand classes take some 50 ms), not for text from strangers: the YAML
// library is slow on some texts that are no configuration.
package policyfile

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/internal/shape"
)

// MaxBytes is the size of the largest file that is read: 1 MiB, several thousand classes.
const MaxBytes = 1 << 20

// maxNesting bounds the depth of brackets and indentation, so that a hostile file cannot exhaust the parser's stack. The
// format itself needs 6.
const maxNesting = 32

// Load reads and checks a file. The error is *policy.Faults where the content is at fault.
func Load(path string) (*policy.Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if info.Size() > MaxBytes {
		return nil, fail(path, policy.Fault{Message: tooLarge})
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse checks the content of a file; name stands before each fault. A non-nil error is *policy.Faults.
func Parse(name string, data []byte) (*policy.Config, error) {
	root, fault := document(data)
	if fault != nil {
		return nil, fail(name, *fault)
	}
	w := newWalker()
	v := shape.New(shape.Of(reflect.TypeFor[policy.Config]()))
	w.value(shape.Of(v.Type()), v, &shape.Rule{}, &shape.Rule{}, root, "")
	c := v.Addr().Interface().(*policy.Config)
	for _, f := range policy.New(c, w.broken) {
		w.fault(f.Path, f.Message)
	}
	if f := policy.NewFaults(name, w.faults); f != nil {
		return nil, f
	}
	return c, nil
}

var tooLarge = fmt.Sprintf("the file is larger than %d bytes", MaxBytes)

func fail(name string, f policy.Fault) error { return policy.NewFaults(name, []policy.Fault{f}) }

// document gets the root mapping of the only document, or the reason why there is none.
func document(data []byte) (ast.Node, *policy.Fault) {
	if len(data) > MaxBytes {
		return nil, &policy.Fault{Message: tooLarge}
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	if f := unreadable(text); f != nil {
		return nil, f
	}
	file, f := parse(text)
	if f != nil {
		return nil, f
	}
	var root ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil:
		case d.Body.Type() == ast.DirectiveType:
			return nil, at(d.Body.GetToken(), "directives are not accepted")
		case d.Body.Type() == ast.CommentType:
		case root != nil:
			return nil, at(d.Body.GetToken(), "a second document is not accepted")
		default:
			root = d.Body
		}
	}
	if root == nil {
		return nil, &policy.Fault{Line: 1, Column: 1, Message: "the file is empty"}
	}
	return root, nil
}

// unreadable finds text that is not UTF-8 or has control characters.
func unreadable(text string) *policy.Fault {
	line, column := 1, 1
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			return &policy.Fault{Line: line, Column: column, Message: "the file is not UTF-8"}
		case r == '\n':
			line, column = line+1, 0
		case r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return &policy.Fault{Line: line, Column: column, Message: fmt.Sprintf("control character %U is not accepted", r)}
		}
		column++
	}
	return nil
}

// parse turns text into a tree. A panic of the parser, which is not ours, is a fault of the text as well.
func parse(text string) (file *ast.File, fault *policy.Fault) {
	defer func() {
		if recover() != nil {
			file, fault = nil, &policy.Fault{Line: 1, Column: 1, Message: "the YAML parser cannot read this text"}
		}
	}()
	tokens := lexer.Tokenize(text)
	if f := tooDeep(tokens); f != nil {
		return nil, f
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return file, nil
	}
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) {
		return nil, at(syntax.Token, sentence(syntax.Message))
	}
	return nil, &policy.Fault{Line: 1, Column: 1, Message: sentence(err.Error())}
}

func sentence(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.ReplaceAll(strings.ReplaceAll(s, "\t", `\t`), "'\\t'", "TAB")
}

// tooDeep counts, without recursion, what the parser would recurse into.
func tooDeep(tokens token.Tokens) *policy.Fault {
	flow, line, onLine := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, onLine = t.Position.Line, 0
			if t.Position.Column > 4*maxNesting && flow == 0 && t.Type != token.CommentType {
				return at(t, "is indented too deeply")
			}
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(0, flow-1)
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			onLine++
		}
		if flow > maxNesting || onLine > maxNesting {
			return at(t, fmt.Sprintf("is nested more than %d deep", maxNesting))
		}
	}
	return nil
}

func at(t *token.Token, message string) *policy.Fault {
	if t == nil || t.Position == nil {
		return &policy.Fault{Line: 1, Column: 1, Message: message}
	}
	return &policy.Fault{Line: max(1, t.Position.Line), Column: max(1, t.Position.Column), Message: message}
}
