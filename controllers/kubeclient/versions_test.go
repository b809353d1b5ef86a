package kubeclient_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAttributesClassVersions: the client of VolumeAttributesClasses uses the version that the server
// has, v1 first, and no request but the one for the object once the version is known.
func TestAttributesClassVersions(t *testing.T) {
	const path = "/apis/storage.k8s.io/"
	for version, searches := range map[string]int{"v1": 0, "v1beta1": 1, "v1alpha1": 2} {
		t.Run(version, func(t *testing.T) {
			server := &versionServer{path: path, resource: "volumeattributesclasses", version: version}
			cluster := server.connect(t)
			for range 2 {
				class, err := cluster.VolumeAttributesClasses().Get(t.Context(), "a", metav1.GetOptions{})
				require.NoError(t, err)
				require.Equal(t, "d", class.DriverName)
				require.Equal(t, map[string]string{"a": "b"}, class.Parameters)
				require.Zero(t, class.TypeMeta)
			}
			_, err := cluster.VolumeAttributesClasses().Get(t.Context(), "missing", metav1.GetOptions{})
			require.True(t, apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err), "%v", err)
			require.Len(t, server.requests, searches+3)
			require.Equal(t, "GET "+path+version+"/volumeattributesclasses/missing ", server.requests[searches+2])
		})
	}
}
