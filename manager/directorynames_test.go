package manager_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume/volumetest"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestInvalidDirectoryNamesAreRefused: the volumes of a pod whose UID is no directory name, and a
// volume whose name is none, are refused.
func TestInvalidDirectoryNamesAreRefused(t *testing.T) {
	requireRefused(t, "pod.metadata.uid", "", "a")
	for _, bad := range []string{"a/b", ".", "..", "a\x00b", strings.Repeat("x", 300)} {
		requireRefused(t, "pod.metadata.uid", types.UID(bad), "a")
		requireRefused(t, "volume.name", "1", bad)
	}
}

func requireRefused(t *testing.T, what string, uid types.UID, name string) {
	t.Helper()
	t.Run(fmt.Sprintf("%s %.5q %.5q", what, uid, name), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, volumetest.FakeConfig{})
			n.claim("a")
			claim, err := n.source.GetPersistentVolumeClaim(t.Context(), "default", "a")
			require.NoError(t, err)
			pv, err := n.source.GetPersistentVolume(t.Context(), "a")
			require.NoError(t, err)
			pv.Name, claim.Spec.VolumeName = name, name
			n.source.SetVolume(pv)
			pod := podWith("1", "a")
			require.NoError(t, n.source.SetPod(pod))
			pod.UID = uid // the source does not validate it
			m, stop := n.run()
			defer stop()
			time.Sleep(time.Hour)
			var at *field.Error
			require.ErrorAs(t, m.WaitForAttachAndMount(endedContext(t), pod), &at)
			require.Equal(t, what, at.Field)
			require.Len(t, m.State().Failed, 1)
			require.Zero(t, n.plugin.Calls(volumetest.Attach))
			require.Empty(t, m.GetVolumesInUse())
		})
	})
}
