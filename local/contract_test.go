package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestContract: directories as volumes keep the contract of plugins.
func TestContract(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		config := contractConfig(t, nil)
		config.NoMetrics = true
		volumetest.TestPlugin(t, config)
	})
	t.Run("real", func(t *testing.T) {
		if mounttest.Namespace(t) {
			volumetest.TestPlugin(t, contractConfig(t, func(*testing.T) mount.Interface {
				return mount.New(mount.Config{})
			}))
		}
	})
}

func contractConfig(t *testing.T, newMounter func(*testing.T) mount.Interface) volumetest.Config[*testing.T] {
	disks, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	newSpec := func(t *testing.T, options ...string) *volume.Spec {
		dir, err := os.MkdirTemp(disks, "disk")
		require.NoError(t, err)
		s := spec(dir, options...)
		s.PersistentVolume.Name = filepath.Base(dir)
		return s
	}
	return volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			return local.New(local.Config{Mounter: m, Roots: []string{disks}})
		},
		NewMounter:     newMounter,
		Spec:           func(t *testing.T) *volume.Spec { return newSpec(t) },
		ReadOnlySpec:   func(t *testing.T) *volume.Spec { return newSpec(t, "ro") },
		Backing:        func(s *volume.Spec) string { return s.PersistentVolume.Spec.Local.Path },
		NoBlock:        true, // a directory is none
		Arguments:      volumetest.Arguments{FsGroup: volumetest.Honoured},
		SELinuxRelabel: true,
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "v"}),
			volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, false),
		},
		Invalid: map[string]*volume.Spec{
			"no path":        spec(""),
			"elsewhere":      spec("/etc"),
			"dot dot":        spec(disks + "/../x"),
			"contradiction":  spec(disks+"/x", "exec", "noexec"),
			"one of several": spec(disks+"/x", "exec,rbind"),
			"bind option":    spec(disks+"/x", "rbind"),
		},
	}
}
