package api

import (
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newObject returns an empty object.
func newObject[O Object]() O {
	return reflect.New(reflect.TypeFor[O]().Elem()).Interface().(O)
}

// kindName returns the name of the type of objects, for logs and errors.
func kindName[O Object]() string { return reflect.TypeFor[O]().Elem().Name() }

// exists reports whether an object is not nil.
func exists[O Object](object O) bool { return any(object) != any(*new(O)) }

// versionOf returns the version of an object as a number.
func versionOf(object metav1.Object) uint64 { return parseVersion(object.GetResourceVersion()) }

// parseVersion returns a version as a number, and 0 for a text that is no version. The API server's
// versions are numbers above 0.
func parseVersion(text string) uint64 {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return version
}
