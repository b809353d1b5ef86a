package objectpatch_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAnnotations: changes of several annotations are in one patch.
func TestAnnotations(t *testing.T) {
	object := &metav1.ObjectMeta{UID: "1", ResourceVersion: "2"}
	data, err := objectpatch.Of(object).OfVersion(object).WithAnnotation("a", "x").WithAnnotation("b", "y").WithoutAnnotation("c").Encode()
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"uid":"1","resourceVersion":"2","annotations":{"a":"x","b":"y","c":null}}}`, string(data))
}
