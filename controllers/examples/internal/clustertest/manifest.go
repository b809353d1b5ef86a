package clustertest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// Objects returns the objects of a manifest. An unknown field fails the test.
func Objects(t *testing.T, file string) (objects []runtime.Object) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object, _, err := strict.Decode([]byte(document), nil, nil)
		require.NoError(t, err, file)
		objects = append(objects, object)
	}
	return objects
}

// Object returns the first object of type T of a manifest.
func Object[T runtime.Object](t *testing.T, file string) (object T) {
	t.Helper()
	for _, any := range Objects(t, file) {
		if found, ok := any.(T); ok {
			return found
		}
	}
	t.Fatalf("%s: no %T", file, object)
	return object
}
