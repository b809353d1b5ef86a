package content_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMapGetterCopies checks that a MapGetter is independent of its callers' slices.
func TestMapGetterCopies(t *testing.T) {
	var g content.MapGetter
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	name := "bundle"
	get := map[string]func() ([]byte, error){
		"token": func() ([]byte, error) { return g.GetServiceAccountToken(t.Context(), pod, nil) },
		"bundle": func() ([]byte, error) {
			return g.GetTrustBundle(t.Context(), &v1.ClusterTrustBundleProjection{Name: &name})
		},
	}
	token, bundle := []byte("token"), []byte("bundle")
	g.SetToken("ns", "default", token)
	g.SetTrustBundle(name, bundle)
	clear(token)
	clear(bundle)
	for want, get := range get {
		for range 2 {
			got, err := get()
			require.NoError(t, err)
			require.Equal(t, want, string(got))
			clear(got)
		}
	}
}
