package mountplugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// TestContract is all the test that a plugin needs for a start: on a kernel in memory, which can be made to fail, and on
// the real one, in a namespace where no root is needed.
func TestContract(t *testing.T) {
	t.Run("fake", func(t *testing.T) { volumetest.TestPlugin(t, contract(t)) })
	t.Run("real", func(t *testing.T) {
		if !mounttest.Namespace(t) {
			return
		}
		config := contract(t)
		config.NewMounter = func(*testing.T) mount.Interface { return mount.New(mount.Config{}) }
		volumetest.TestPlugin(t, config)
	})
}

// contract returns the configuration of the contract test: it creates the plugin, valid volumes, and volumes that cannot
// be set up.
func contract(t *testing.T) volumetest.Config[*testing.T] {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	newShare := func(t *testing.T, readOnly bool) *volume.Spec {
		dir, err := os.MkdirTemp(root, "share")
		if err != nil {
			t.Fatal(err)
		}
		share := filepath.Base(dir)
		return newSpec("volume-"+share, share, readOnly)
	}
	return volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			return &Plugin{Mounter: m, Root: root}
		},
		Spec:         func(t *testing.T) *volume.Spec { return newShare(t, false) },
		ReadOnlySpec: func(t *testing.T) *volume.Spec { return newShare(t, true) },
		Backing: func(spec *volume.Spec) string {
			return filepath.Join(root, spec.Volume.CSI.VolumeAttributes[Attribute])
		},
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "v"}),
			volume.NewSpecFromVolume(&v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
				CSI: &v1.CSIVolumeSource{Driver: "another.example.com"},
			}}),
		},
		Invalid: map[string]*volume.Spec{
			"no share":    newSpec("v", "", false),
			"all shares":  newSpec("v", ".", false),
			"no name":     newSpec("v", "../etc", false),
			"in a share":  newSpec("v", "share/sub", false),
			"hostile NUL": newSpec("v", "share\x00", false),
		},
	}
}
