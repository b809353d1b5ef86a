package manager_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestRecordWithoutDeviceMountIsRemoved: a record with a device mount path where nothing is mounted is
// removed if no pod needs the volume. Such a record stays if the manager is killed after it
// writes the record and before it mounts the device, or after it unmounts the device and before
// it updates the record.
func TestRecordWithoutDeviceMountIsRemoved(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	for name, missing := range map[string]bool{"missing": true, "there": false} {
		t.Run(name, func(t *testing.T) {
			n, err := newRealNode(newTmpfsDir(t))
			require.NoError(t, err)
			place := n.dir + "/root/plugins/kubernetes.io/local-volume/mounts/pv"
			if !missing {
				require.NoError(t, os.MkdirAll(place, 0o750))
			}
			const unique = "kubernetes.io/local-volume/pv"
			sum := sha256.Sum256([]byte(unique))
			records := n.dir + "/root/plugins/volumekit.io/manager/volumes"
			require.NoError(t, os.MkdirAll(records, 0o700))
			file := records + "/" + hex.EncodeToString(sum[:16]) + ".json"
			require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"version":1,"volume":%q,"plugin":"kubernetes.io/local-volume","name":"pv",
				"deviceMountable":true,"deviceMountPath":%q,"for":{"uid":"1","name":"pv"},
				"spec":{"persistentVolume":{"metadata":{"name":"pv"},"spec":{"capacity":{"storage":"1Gi"},"local":{"path":%q}}}}}`,
				unique, place, n.dir+"/disks/dev"), 0o600))
			stop := n.run(t.Context())
			require.Eventually(t, func() bool {
				_, err := os.Lstat(file)
				state := n.manager.State()
				return errors.Is(err, fs.ErrNotExist) && state.Populated && len(state.Volumes) == 0
			}, 3*time.Minute, 10*time.Millisecond)
			require.Empty(t, n.manager.State().Leftovers)
			require.NoError(t, stop())
		})
	}
}

// TestMissingDeviceMountHasNoRefs: fs.ErrNotExist from GetDeviceMountRefs keeps no volume and causes no
// warning.
func TestMissingDeviceMountHasNoRefs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.GetDeviceMountRefs, Err: fmt.Errorf("looking: %w", fs.ErrNotExist)})
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		n.source.RemovePod("1")
		n.down(m, pod)
		synctest.Wait()
		require.Empty(t, m.State().Volumes)
		require.Empty(t, n.warnings())
	})
}
