package apitest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var specPath = field.NewPath("spec")

func core(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }

func storage(resource string) schema.GroupResource {
	return schema.GroupResource{Group: "storage.k8s.io", Resource: resource}
}

// setDefault sets an empty field.
func setDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

// setPointer sets a nil field.
func setPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// immutable returns an error if the values differ.
func immutable(value, old any, path *field.Path) field.ErrorList {
	return validation.ValidateImmutableField(value, old, path)
}

// validateStorage requires a size above 0 of a claim or a volume.
func validateStorage(size v1.ResourceList, path *field.Path) field.ErrorList {
	quantity, ok := size[v1.ResourceStorage]
	switch {
	case !ok:
		return field.ErrorList{field.Required(path.Key(string(v1.ResourceStorage)), "")}
	case quantity.Sign() <= 0:
		return field.ErrorList{field.Invalid(path.Key(string(v1.ResourceStorage)), quantity.String(), "must be greater than zero")}
	}
	return nil
}

func validateAccessModes(modes []v1.PersistentVolumeAccessMode, path *field.Path) (errs field.ErrorList) {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(path, "at least 1 access mode is required")}
	}
	known := []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOnce, v1.ReadWriteOncePod}
	single := false
	for _, mode := range modes {
		errs = append(errs, oneOf(mode, known, path)...)
		single = single || mode == v1.ReadWriteOncePod
	}
	if single && len(modes) > 1 {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

// oneOf returns an error if the value is none of the known ones.
func oneOf[T ~string](value T, known []T, path *field.Path) field.ErrorList {
	for _, k := range known {
		if value == k {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, known)}
}

func required(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

// addFinalizer adds a finalizer unless the object has it.
func addFinalizer(finalizers []string, name string) []string {
	for _, f := range finalizers {
		if f == name {
			return finalizers
		}
	}
	return append(finalizers, name)
}
