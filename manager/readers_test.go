package manager_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestReadersFirst: what was mounted for a pod that only reads is mounted for one that
// writes once the reader has gone; until then that one is told why it waits, once, and
// other readers come and go.
func TestReadersFirst(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				n.claim("a")
				reads, also, writes := podWith("1", "a"), podWith("2", "a"), podWith("3", "a")
				reads.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
				also.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
				m, stop := n.runUp(reads)
				if restart {
					stop()
				}
				n.source.SetPod(writes)
				if restart {
					m, stop = n.run()
				}
				time.Sleep(time.Hour)
				require.ErrorContains(t, m.WaitForAttachAndMount(ended(t), writes), "mounted for pods that only read")
				require.Equal(t, []string{manager.FailedMount}, n.warnings())
				n.source.SetPod(also)
				n.up(m, also)
				n.up(m, reads)
				require.NotZero(t, n.table("/mounts/")[0].Flags&mount.ReadOnly)

				begin := time.Now()
				n.source.RemovePod("1", "2")
				n.up(m, writes)
				require.Zero(t, time.Since(begin), "of a clock that is not the machine's")
				require.Zero(t, n.table("/mounts/")[0].Flags&mount.ReadOnly)
				n.source.SetPod(reads)
				n.up(m, reads)
				stop()

				// A mount for who writes serves readers, too.
				n.source.RemovePod("3")
				m, stop = n.run()
				n.up(m, reads)
				n.source.RemovePod("1")
				n.down(m, reads)
				require.Zero(t, settled(n))
				stop()
			})
		})
	}
}

// TestWriterAfterFailures: a volume that only a pod that writes can have mounted, as a
// blank device, is mounted as soon as there is one.
func TestWriterAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		reads, writes := podWith("1", "a"), podWith("2", "a")
		reads.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
		n.plugin.Inject(volumetest.Fault{Method: volumetest.MountDevice, Err: errors.New("not formatted")})
		m, stop := n.run()
		defer stop()
		n.source.SetPod(reads)
		time.Sleep(time.Hour)
		n.plugin.ClearFaults()
		begin := time.Now()
		n.source.SetPod(writes)
		n.up(m, writes)
		require.Zero(t, time.Since(begin), "of a clock that is not the machine's")
	})
}
