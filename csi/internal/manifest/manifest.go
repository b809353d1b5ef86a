// Package manifest parses the manifests of the examples, for their tests.
package manifest

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// Objects are the objects of manifests.
type Objects []runtime.Object

// Parse returns the objects of a file. An unknown kind and an unknown field are errors.
func Parse(text string) (objects Objects, err error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, storagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	for i, document := range strings.Split(text, "\n---\n") {
		object, _, err := strict.Decode([]byte(document), nil, nil)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// One returns the only object of type T.
func One[T runtime.Object](objects Objects) (one T, err error) {
	found := 0
	for _, object := range objects {
		if is, ok := object.(T); ok {
			one, found = is, found+1
		}
	}
	if found != 1 {
		return one, fmt.Errorf("%d objects of type %T: must be one", found, one)
	}
	return one, nil
}
