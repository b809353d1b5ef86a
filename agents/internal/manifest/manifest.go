// Package manifest parses the manifests of the programs, for their tests.
package manifest

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// Read returns the only object of type T of a file. An unknown kind and an unknown field fail the test.
func Read[T runtime.Object](t testing.TB, file string) (one T) {
	t.Helper()
	found := 0
	for _, object := range Objects(t, file) {
		if is, ok := object.(T); ok {
			one, found = is, found+1
		}
	}
	if found != 1 {
		t.Fatalf("%s: %d objects of type %T: must be one", file, found, one)
	}
	return one
}

// RequireProbe requires that the liveness probe of a container reaches the address at which its program answers.
func RequireProbe(t testing.TB, c v1.Container, address string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil || c.LivenessProbe == nil {
		t.Fatalf("container %s: probe %v of address %q", c.Name, c.LivenessProbe, address)
	}
	if get := c.LivenessProbe.HTTPGet; get.Host != host || get.Port.String() != port || get.Path != "/healthz" {
		t.Fatalf("container %s: probe %v of address %q", c.Name, get, address)
	}
}

// Objects returns the objects of a file, in their order. An unknown kind and an unknown field fail the test.
func Objects(t testing.TB, file string) []runtime.Object {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return objects
}

// parse returns the objects of a text.
func parse(text string) (objects []runtime.Object, err error) {
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
