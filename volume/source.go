package volume

import (
	"iter"
	"reflect"
	"strings"
)

// sources yields the sources that are set, under their names in the API ("nfs").
// It looks at the API types as they are linked, so that a kind of volume that a
// newer Kubernetes adds is known here without a change.
func (s *Spec) sources() iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for _, all := range s.sourceStructs() {
			for i := range all.NumField() {
				field := all.Field(i)
				if field.Kind() != reflect.Pointer || field.IsNil() {
					continue
				}
				if !yield(apiName(all.Type().Field(i)), field.Elem()) {
					return
				}
			}
		}
	}
}

func (s *Spec) sourceStructs() []reflect.Value {
	var all []reflect.Value
	if s != nil && s.Volume != nil {
		all = append(all, reflect.ValueOf(&s.Volume.VolumeSource).Elem())
	}
	if s != nil && s.PersistentVolume != nil {
		all = append(all, reflect.ValueOf(&s.PersistentVolume.Spec.PersistentVolumeSource).Elem())
	}
	return all
}

func apiName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// sourceIsReadOnly reports whether a source has a field ReadOnly that is true.
func (s *Spec) sourceIsReadOnly() bool {
	for _, source := range s.sources() {
		if source.Kind() != reflect.Struct {
			continue
		}
		// Some kinds have a bool, others a pointer to one.
		readOnly := reflect.Indirect(source.FieldByName("ReadOnly"))
		if readOnly.Kind() == reflect.Bool && readOnly.Bool() {
			return true
		}
	}
	return false
}

// sourceNames returns the names of the sources that are set.
func (s *Spec) sourceNames() []string {
	var names []string
	for name := range s.sources() {
		names = append(names, name)
	}
	return names
}
