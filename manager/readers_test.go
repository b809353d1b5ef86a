package manager_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"k8s.io/apimachinery/pkg/types"
)

// TestWriterWaitsForReaders: a volume that is device-mounted for readers is mounted for a writer once the
// readers have gone. Until then the writer waits, with one event that has the reason, and other
// readers come and go.
func TestWriterWaitsForReaders(t *testing.T) {
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
				require.ErrorContains(t, m.WaitForAttachAndMount(endedContext(t), writes), "mounted read-only for other pods")
				require.Equal(t, []string{manager.FailedMount}, n.warnings())
				n.source.SetPod(also)
				n.up(m, also)
				n.up(m, reads)
				require.NotZero(t, n.mountsBelow("/mounts/")[0].Flags&mount.ReadOnly)

				begin := time.Now()
				n.source.RemovePod("1", "2")
				n.up(m, writes)
				require.Zero(t, time.Since(begin), "of a clock that is not the machine's")
				require.Zero(t, n.mountsBelow("/mounts/")[0].Flags&mount.ReadOnly)
				n.source.SetPod(reads)
				n.up(m, reads)
				stop()

				// A mount for a writer serves readers, too.
				n.source.RemovePod("3")
				m, stop = n.run()
				n.up(m, reads)
				n.source.RemovePod("1")
				n.down(m, reads)
				require.Zero(t, stableMountCount(n))
				stop()
			})
		})
	}
}

// TestWriterEndsMountBackoff: a volume that can be mounted only for a writer, such as a blank
// device, is mounted as soon as a writer needs it, without waiting for the backoff.
func TestWriterEndsMountBackoff(t *testing.T) {
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

// blankDevicePlugin has a blank device, which only a writer can format.
type blankDevicePlugin struct{ *volumetest.FakePlugin }

type blankDeviceMounter struct{ volume.DeviceMounter }

// TestBlankDeviceIsMountedForWriter: a blank device is mounted for the writer, whether the UID of the
// reader or of the writer sorts first.
func TestBlankDeviceIsMountedForWriter(t *testing.T) {
	for _, uid := range []types.UID{"0", "9"} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, volumetest.FakeConfig{})
			n.claim("a")
			plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, blankDevicePlugin{n.plugin})
			require.NoError(t, err)
			n.config.Plugins = plugins
			m, stop := n.run()
			defer stop()
			reader, writer := podWith(uid, "a"), podWith("5", "a")
			reader.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
			n.source.SetPod(reader)
			time.Sleep(time.Minute)
			require.ErrorContains(t, m.WaitForAttachAndMount(endedContext(t), reader), "blank")
			n.source.SetPod(writer)
			n.up(m, writer)
			n.up(m, reader)
		})
	}
}

func (p blankDevicePlugin) NewDeviceMounter() (volume.DeviceMounter, error) {
	m, err := p.FakePlugin.NewDeviceMounter()
	return blankDeviceMounter{m}, err
}

func (m blankDeviceMounter) MountDevice(ctx context.Context, spec *volume.Spec, path string, args volume.DeviceMounterArgs) error {
	if spec.IsReadOnly() {
		return errors.New("the device is blank, and this use of it is read-only")
	}
	return m.DeviceMounter.MountDevice(ctx, spec, path, args)
}
