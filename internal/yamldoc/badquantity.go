package yamldoc

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// BadQuantity returns an error that names the first field of content (decoded YAML) that
// does not parse and is a quantity in the type of as. It returns nil if there is none. The
// decoder's own error does not name the field. The error omits the value, which may be a
// part of a secret.
func BadQuantity(content, as any) error {
	return badQuantity(content, reflect.TypeOf(as), nil)
}

func badQuantity(content any, of reflect.Type, at *field.Path) error {
	for of != nil && of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of == nil || content == nil:
		return nil
	case of == reflect.TypeFor[resource.Quantity]():
		return checkQuantity(content, at)
	}
	switch content := content.(type) {
	case []any:
		return badQuantityInList(content, of, at)
	case map[string]any:
		return badQuantityInMap(content, of, at)
	}
	return nil
}

func checkQuantity(content any, at *field.Path) error {
	switch content := content.(type) {
	case string:
		if _, err := resource.ParseQuantity(content); err == nil {
			return nil
		}
	case bool, []any, map[string]any:
	default: // a number
		return nil
	}
	return field.Invalid(at, field.OmitValueType{}, "not a quantity, such as 500m or 10Gi")
}

func badQuantityInList(content []any, of reflect.Type, at *field.Path) error {
	if of.Kind() != reflect.Slice {
		return nil
	}
	for i, one := range content {
		if err := badQuantity(one, of.Elem(), at.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func badQuantityInMap(content map[string]any, of reflect.Type, at *field.Path) error {
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if err := badQuantity(content[name], typeIn(of, name), child(at, name)); err != nil {
			return err
		}
	}
	return nil
}

// typeIn returns the type of the field or map value that has a name in JSON, or nil.
func typeIn(of reflect.Type, name string) reflect.Type {
	switch of.Kind() {
	case reflect.Map:
		return of.Elem()
	case reflect.Struct:
		for i := range of.NumField() {
			f := of.Field(i)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == name {
				return f.Type
			}
			if tag == "" && f.Anonymous { // JSON has the embedded struct's fields in its place
				if inner := typeIn(f.Type, name); inner != nil {
					return inner
				}
			}
		}
	}
	return nil
}
