package yamldoc

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// BadType returns an error for the field of a document (decoded YAML) whose value has the
// wrong type. The error names the value and the index in a list, which the decoder's error
// lacks. With isSecret it omits the value and the keys of maps.
func BadType(mismatch *json.UnmarshalTypeError, document any, isSecret bool) error {
	s := search{kind: mismatch.Value}
	should := "should be " + typeNames[mismatch.Type.Kind()]
	if isSecret || !s.searchValue(document, strings.Split(mismatch.Field, "."), nil) {
		return field.Invalid(field.NewPath(mismatch.Field), field.OmitValueType{}, should)
	}
	return field.Invalid(s.path, s.value, should)
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

// A search finds the first value of a JSON kind: "string", "number 1.5", "array".
type search struct {
	kind  string
	path  *field.Path
	value any
}

// searchValue searches content for the value at the end of names, the names of Go's fields: embedded
// structs are not in the document, and elements of lists and maps have no name.
func (s *search) searchValue(content any, names []string, at *field.Path) bool {
	if len(names) == 0 && s.found(content, at) {
		return true
	}
	switch content := content.(type) {
	case []any:
		for i, element := range content {
			if s.searchValue(element, names, at.Index(i)) {
				return true
			}
		}
	case map[string]any:
		return s.searchMap(content, names, at)
	}
	return false
}

// searchMap searches a map: after the last name its values in the order of their keys, else the
// field of the next name, and then the later names, in case the next one is an embedded struct.
func (s *search) searchMap(content map[string]any, names []string, at *field.Path) bool {
	if len(names) == 0 {
		for _, key := range slices.Sorted(maps.Keys(content)) {
			if s.found(content[key], at.Key(input.Shorten(key))) {
				return true
			}
		}
		return false
	}
	if next, ok := content[names[0]]; ok && s.searchValue(next, names[1:], at.Child(names[0])) {
		return true
	}
	return len(names) > 1 && s.searchValue(content, names[1:], at)
}

func (s *search) found(content any, at *field.Path) bool {
	kind, _, _ := strings.Cut(s.kind, " ")
	if kindOf(content) != kind {
		return false
	}
	s.path, s.value = at, content
	switch kind {
	case "string":
		s.value = input.Shorten(content.(string))
	case "array", "object":
		text, _ := json.Marshal(content) // decoded from JSON, so encoding does not fail
		s.value = input.Shorten(string(text))
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
