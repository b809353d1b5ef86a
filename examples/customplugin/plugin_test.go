package customplugin

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestContract is all the test that a plugin needs for a start: on a kernel in memory,
// which can be made to fail, and on the real one, in a namespace where no root is needed.
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

// TestOwnersChangeOnce checks that a volume that pods use does not change to the group of the next
// pod. The promises of this plugin alone have tests of their own.
func TestOwnersChangeOnce(t *testing.T) {
	config := contract(t)
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	plugin := config.New(t, host, mounttest.NewFake(mount.Config{}))
	require.NoError(t, plugin.Init(t.Context(), host))
	spec, group := config.Spec(t), int64(os.Getgid())
	file := filepath.Join(config.Backing(spec), "file")
	private := func() {
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.NoError(t, os.Chmod(file, 0o600))
	}
	up := func(pod types.UID) fs.FileMode {
		mounter, err := plugin.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod}})
		require.NoError(t, err)
		require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{FsGroup: &group}))
		info, err := os.Stat(file)
		require.NoError(t, err)
		return info.Mode()
	}
	private()
	require.Equal(t, fs.FileMode(0o660), up("first"))
	private()
	require.Equal(t, fs.FileMode(0o600), up("first"), "it is up already")
	require.Equal(t, fs.FileMode(0o600), up("second"))
	for _, pod := range []types.UID{"first", "second"} {
		unmounter, err := plugin.NewUnmounter(spec.Name(), pod)
		require.NoError(t, err)
		require.NoError(t, unmounter.TearDown(t.Context()))
	}
	require.Equal(t, fs.FileMode(0o660), up("third"))
}

// contract returns the configuration of the contract test: it creates the plugin, valid
// volumes, and volumes that cannot be set up.
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
		return specOf("volume-"+share, share, readOnly)
	}
	return volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			return New(Config{Mounter: m, Root: root})
		},
		Spec:         func(t *testing.T) *volume.Spec { return newShare(t, false) },
		ReadOnlySpec: func(t *testing.T) *volume.Spec { return newShare(t, true) },
		Backing: func(spec *volume.Spec) string {
			return filepath.Join(root, spec.Volume.CSI.VolumeAttributes[Attribute])
		},
		Arguments: volumetest.Arguments{FsGroup: volumetest.Honoured},
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "v"}),
			volume.NewSpecFromVolume(&v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
				CSI: &v1.CSIVolumeSource{Driver: "another.example.com"},
			}}),
		},
		Invalid: map[string]*volume.Spec{
			"no share":    specOf("v", "", false),
			"all shares":  specOf("v", ".", false),
			"no name":     specOf("v", "../etc", false),
			"in a share":  specOf("v", "share/sub", false),
			"hostile NUL": specOf("v", "share\x00", false),
		},
	}
}
