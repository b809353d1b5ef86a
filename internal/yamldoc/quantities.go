package yamldoc

import (
	"errors"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// quantities are the fields of the API's objects that are quantities, or lists of them.
var quantities = []string{"sizeLimit", "divisor", "limits", "requests", "capacity", "allocatedResources", "overhead"}

// endless matches an exponent that no quantity needs. Decoding "1e-99999999" writes out
// its zeros, for minutes.
var endless = regexp.MustCompile(`[eE][+-]?0*[1-9][0-9]{2}`)

var errEndless = errors.New("a quantity has an exponent of two digits at most")

// CheckQuantities refuses content (decoded YAML) with a quantity that would take minutes to
// decode. The error names the first such field.
func CheckQuantities(content any) error { return check(content, nil, false) }

func check(content any, at *field.Path, isQuantity bool) error {
	switch content := content.(type) {
	case string:
		if isQuantity && endless.MatchString(content) {
			return field.Invalid(at, field.OmitValueType{}, errEndless.Error())
		}
	case []any:
		for i, one := range content {
			if err := check(one, at.Index(i), isQuantity); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(content)) {
			if err := check(content[name], child(at, name), isQuantity || slices.Contains(quantities, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func child(at *field.Path, name string) *field.Path {
	if len(name) > 64 {
		name = name[:64] + "..."
	}
	return at.Child(name)
}
