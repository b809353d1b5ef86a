package csi

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestContract: volumes of a driver keep the contract of plugins, staged or not, on a real kernel. On a
// fake one the contract fails the calls of the mounter, which are the driver's here.
func TestContract(t *testing.T) {
	for name, caps := range map[string][]rpc{"staged": {capStage}, "published": nil} {
		t.Run(name, func(t *testing.T) {
			if mounttest.Namespace(t) {
				volumetest.TestPlugin(t, contractConfig(t, caps))
			}
		})
	}
}

// unstaged is a plugin without device mounts: those of a driver that does not stage mount nothing.
type unstaged struct {
	volume.VolumePlugin
	volume.PathVolumePlugin
	volume.BlockVolumePlugin
	volume.MountOptionsVolumePlugin
	volume.NodeExpandableVolumePlugin
}

func contractConfig(t *testing.T, caps []rpc) volumetest.Config[*testing.T] {
	var count atomic.Int64
	var plugins []*Plugin
	mounter := mount.New(mount.Config{})
	n := newFakeNodeOn(t, mounter, caps...)
	newSpec := func() *volume.Spec { return n.pv(fmt.Sprint("pv-", count.Add(1))) }
	invalid := func(change func(*v1.CSIPersistentVolumeSource)) *volume.Spec {
		spec := newSpec()
		change(spec.PersistentVolume.Spec.CSI)
		return spec
	}
	return volumetest.Config[*testing.T]{
		New: func(t *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			for _, earlier := range plugins {
				_ = earlier.Close() // a process that has ended has no connections
			}
			plugin := New(Config{Mounter: m, Drivers: n})
			plugins = append(plugins, plugin)
			t.Cleanup(func() { require.NoError(t, plugin.Close()) })
			if caps == nil {
				return unstaged{plugin, plugin, plugin, plugin, plugin}
			}
			return plugin
		},
		NewMounter: func(*testing.T) mount.Interface { return mounter },
		Spec:       func(*testing.T) *volume.Spec { return newSpec() },
		ReadOnlySpec: func(*testing.T) *volume.Spec {
			spec := newSpec()
			spec.PersistentVolume.Spec.CSI.ReadOnly = true
			return spec
		},
		BlockSpec: func(*testing.T) *volume.Spec { return n.block(fmt.Sprint("pv-", count.Add(1))) },
		Backing: func(spec *volume.Spec) string {
			return n.driver.volumeDir(spec.PersistentVolume.Spec.CSI.VolumeHandle)
		},
		Directory:       "mount",
		NoMetrics:       true, // the driver has no statistics
		RuntimeReadOnly: true,
		SELinuxRelabel:  true,
		Arguments:       volumetest.Arguments{FsGroup: volumetest.Honoured},
		Keeps:           func(name string) bool { return !strings.Contains(name, "vol_data") },
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "v"}),
			volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, false),
		},
		Invalid: map[string]*volume.Spec{
			"no driver": invalid(func(s *v1.CSIPersistentVolumeSource) { s.Driver = "" }),
			"no handle": invalid(func(s *v1.CSIPersistentVolumeSource) { s.VolumeHandle = "" }),
			"a path":    invalid(func(s *v1.CSIPersistentVolumeSource) { s.Driver = "../x" }),
		},
	}
}
