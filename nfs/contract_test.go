package nfs_test

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestContractFake is of mounts that only the fake has: servers are for TestNFSContract.
func TestContractFake(t *testing.T) {
	t.Setenv("TMPDIR", testbed.Memory())
	for name, one := range map[string]bool{"each": false, "one": true} {
		t.Run(name, func(t *testing.T) {
			for name, newSpec := range map[string]func(nfsPath string, readOnly bool, options ...string) *volume.Spec{
				"pv": pv, "inline": inline,
			} {
				t.Run(name, func(t *testing.T) {
					var exports atomic.Int32
					config := contractConfig(nfs.Config{OneMountPerExport: one}, func(readOnly bool) *volume.Spec {
						return newSpec(fmt.Sprintf("/export/%d", exports.Add(1)), readOnly)
					})
					config.NoMetrics = true
					volumetest.TestPlugin(t, config)
				})
			}
		})
	}
}

// contractConfig is for volumes that newSpec returns, each another.
func contractConfig(c nfs.Config, newSpec func(readOnly bool) *volume.Spec) volumetest.Config[*testing.T] {
	return volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			c.Mounter = m
			return nfs.New(c)
		},
		Spec:         func(*testing.T) *volume.Spec { return newSpec(false) },
		ReadOnlySpec: func(*testing.T) *volume.Spec { return newSpec(true) },
		Arguments:    volumetest.Arguments{FsGroup: volumetest.Ignored},
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "v"}),
			volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, false),
		},
		Invalid: map[string]*volume.Spec{
			"no path":       writable(""),
			"relative":      inline("x", false),
			"dot dot":       writable("/x/../y"),
			"option":        writable("/x", "bind"),
			"contradiction": writable("/x", "hard", "soft"),
			"rw":            pv("/x", true, "rw"),
		},
	}
}

const server = "nas.example.com"

// pv is a persistent volume with an export of the server. Its name is that of the
// path.
func pv(path string, readOnly bool, options ...string) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: nameFor(path)},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{NFS: source(server, path, readOnly)},
			MountOptions:           options,
		},
	}, false)
}

// writable is a persistent volume that a pod may write to.
func writable(path string, options ...string) *volume.Spec { return pv(path, false, options...) }

// inline is a volume that is written in a pod, which has no options.
func inline(path string, readOnly bool, _ ...string) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{
		Name:         nameFor(path),
		VolumeSource: v1.VolumeSource{NFS: source(server, path, readOnly)},
	})
}

func source(server, path string, readOnly bool) *v1.NFSVolumeSource {
	return &v1.NFSVolumeSource{Server: server, Path: path, ReadOnly: readOnly}
}

func nameFor(path string) string { return fmt.Sprintf("v-%x", path) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
