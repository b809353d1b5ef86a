package main

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// clearer says of a value of the wrong type which one it is. The decoder says it
// in terms of Go, without the value and the place in a list.
func clearer(err error, document map[string]any) error {
	mismatch := (*json.UnmarshalTypeError)(nil)
	if !errors.As(err, &mismatch) {
		return err
	}
	s := search{kind: mismatch.Value}
	if !s.in(document, strings.Split(mismatch.Field, "."), nil) {
		return err
	}
	return field.Invalid(s.path, s.value, "should be "+typeNames[mismatch.Type.Kind()])
}

var typeNames = map[reflect.Kind]string{
	reflect.Bool:    "true or false",
	reflect.Float64: "a number",
	reflect.Int32:   "a whole number",
	reflect.Int64:   "a whole number",
	reflect.Map:     "an object",
	reflect.Slice:   "a list",
	reflect.String:  "a string",
	reflect.Struct:  "an object",
}

// A search is for a value of a kind of JSON: "string", "number 1.5", "array".
type search struct {
	kind  string
	path  *field.Path
	value any
}

// in looks at the end of names, which are those of Go's fields: embedded ones are
// not in the document, and lists and maps have no name for what is in them.
func (s *search) in(content any, names []string, at *field.Path) bool {
	if len(names) == 0 && s.found(content, at) {
		return true
	}
	switch content := content.(type) {
	case []any:
		for i, element := range content {
			if s.in(element, names, at.Index(i)) {
				return true
			}
		}
	case map[string]any:
		return s.inMap(content, names, at)
	}
	return false
}

func (s *search) inMap(content map[string]any, names []string, at *field.Path) bool {
	if len(names) == 0 {
		for _, key := range slices.Sorted(maps.Keys(content)) {
			if s.found(content[key], at.Key(short(key))) {
				return true
			}
		}
		return false
	}
	if next, ok := content[names[0]]; ok && s.in(next, names[1:], at.Child(names[0])) {
		return true
	}
	return len(names) > 1 && s.in(content, names[1:], at)
}

func (s *search) found(content any, at *field.Path) bool {
	kind, _, _ := strings.Cut(s.kind, " ")
	if kindOf(content) != kind {
		return false
	}
	s.path, s.value = at, content
	switch kind {
	case "string":
		s.value = short(content.(string))
	case "array", "object":
		text, _ := json.Marshal(content) // it came from JSON
		s.value = short(string(text))
	}
	return true
}

func kindOf(content any) string {
	switch content.(type) {
	case bool:
		return "bool"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}
