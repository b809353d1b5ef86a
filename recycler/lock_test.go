package recycler

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/util/keylock"
)

func TestStorageKey(t *testing.T) {
	nfs := func(server, path string) string {
		return storageKey(v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: server, Path: path}})
	}
	for _, same := range [][4]string{
		{"a", "/x", "A.", "//x/"},
		{"::1", "/x", "[0:0::1]", "/x"},
		{"10.0.0.1", "/x", "::ffff:10.0.0.1", "/x"},
	} {
		require.Equal(t, nfs(same[0], same[1]), nfs(same[2], same[3]))
	}
	require.NotEqual(t, nfs("a", "/x"), nfs("b", "/x"))
	require.NotEqual(t, nfs("a", "/x"), nfs("a", "/X"))

	hostPath := func(path string) string {
		kind := v1.HostPathDirectory
		return storageKey(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}})
	}
	require.Equal(t, hostPath("/x"), hostPath("/x"))
	require.NotEqual(t, hostPath("/x"), hostPath("/y"))
}

// TestLockBoth checks that neither lock is held if one of them cannot be acquired in time.
func TestLockBoth(t *testing.T) {
	var first, second keylock.Map
	unlock, err := lockBoth(t.Context(), &first, "a", &second, "b")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := lockBoth(ctx, &first, "x", &second, "b")
		failed <- err
	}()
	require.Eventually(t, func() bool { return first.Len() == 2 }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	unlock()
	require.Zero(t, first.Len()+second.Len())
}
