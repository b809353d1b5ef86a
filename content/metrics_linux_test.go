package content_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/metrics"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMetrics checks that the usage of a ConfigMap is that of its files, regardless of other
// files on the disk; a Secret has a file system of its own.
func TestMetrics(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := nodeIn(t, t.TempDir(), mount.New(mount.Config{}), nil)
	const size = 100 << 10
	n.SetConfigMap(&v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "config"},
		Data:       map[string]string{"large": strings.Repeat("x", size)},
	})
	for name, test := range map[string]struct {
		source  v1.VolumeSource
		counted bool
	}{"ConfigMap": {configMap(), true}, "Secret": {secret(), false}} {
		n.setUpAndRead(t, test.source, args{})
		m := n.mounter(t, test.source)
		got, err := m.GetMetrics(t.Context())
		require.NoError(t, err, name)
		around, err := metrics.NewMetricsStatFS(m.GetPath()).GetMetrics(t.Context())
		require.NoError(t, err, name)
		require.Equal(t, around.Capacity.Value(), got.Capacity.Value(), name)
		if test.counted {
			require.Positive(t, got.Used.Value(), name)
			require.Less(t, got.Used.Value(), int64(2*size), name)
		} else {
			require.Equal(t, around.Used.Value(), got.Used.Value(), name)
		}
		n.tearDown(t, test.source)
	}
}
