package hostpath_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestContract: the plugin keeps the contract of plugins, for volumes of pods and persistent
// ones.
func TestContract(t *testing.T) {
	for _, form := range []struct {
		name string
		spec func(path string, kind v1.HostPathType, options ...string) *volume.Spec
	}{{"pod", inPod}, {"persistent", persistent}} {
		t.Run(form.name, func(t *testing.T) {
			t.Run("fake", func(t *testing.T) {
				t.Setenv("TMPDIR", testbed.Memory())
				config := contractConfig(t, form.spec, nil, hostpath.Config{})
				config.NoMetrics = true
				volumetest.TestPlugin(t, config)
			})
			t.Run("real", func(t *testing.T) {
				if mounttest.Namespace(t) {
					volumetest.TestPlugin(t, contractConfig(t, form.spec, realMounter, hostpath.Config{}))
				}
			})
		})
	}
}

func realMounter(t *testing.T) mount.Interface {
	m := mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func contractConfig(t *testing.T, form func(string, v1.HostPathType, ...string) *volume.Spec,
	newMounter func(*testing.T) mount.Interface, plugin hostpath.Config) volumetest.Config[*testing.T] {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	newSpec := func(t *testing.T, options ...string) *volume.Spec {
		dir, err := os.MkdirTemp(root, "dir")
		require.NoError(t, err)
		s := form(dir, v1.HostPathDirectory, options...)
		if s.Volume != nil {
			s.Volume.Name = filepath.Base(dir)
		} else {
			s.PersistentVolume.Name = filepath.Base(dir)
		}
		return s
	}
	config := volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			plugin.Mounter, plugin.Roots = m, []string{root}
			return hostpath.New(plugin)
		},
		NewMounter: newMounter,
		Spec:       func(t *testing.T) *volume.Spec { return newSpec(t) },
		Backing: func(s *volume.Spec) string {
			if s.Volume != nil {
				return s.Volume.HostPath.Path
			}
			return s.PersistentVolume.Spec.HostPath.Path
		},
		Arguments: volumetest.Arguments{FsGroup: volumetest.Ignored},
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "v"}),
			volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, false),
		},
		Invalid: map[string]*volume.Spec{
			"no path":      form("", ""),
			"elsewhere":    form("/etc", ""),
			"relative":     form("x", ""),
			"dot dot":      form(root+"/../x", ""),
			"NUL":          form(root+"/a\x00b", ""),
			"unknown type": form(root+"/x", "Door"),
			"long name":    form(root+"/x/"+strings.Repeat("a", 256), v1.HostPathDirectoryOrCreate),
			"long path":    form(root+strings.Repeat("/x", 2048), v1.HostPathDirectoryOrCreate),
		},
	}
	if form("", "").PersistentVolume != nil {
		config.ReadOnlySpec = func(t *testing.T) *volume.Spec { return newSpec(t, "noexec,ro") }
		config.Invalid["contradiction"] = form(root+"/x", "", "exec", "noexec")
		config.Invalid["one of several"] = form(root+"/x", "", "noexec,rbind")
		config.Invalid["bind option"] = form(root+"/x", "", "rbind")
		config.Invalid["device without dev"] = form(root+"/x", v1.HostPathCharDev, "nodev")
	}
	return config
}

func sourceFor(path string, kind v1.HostPathType) *v1.HostPathVolumeSource {
	source := &v1.HostPathVolumeSource{Path: path}
	if kind != "" {
		source.Type = &kind
	}
	return source
}

func inPod(path string, kind v1.HostPathType, _ ...string) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{
		Name: "vol", VolumeSource: v1.VolumeSource{HostPath: sourceFor(path, kind)},
	})
}

func persistent(path string, kind v1.HostPathType, options ...string) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "vol"},
		Spec: v1.PersistentVolumeSpec{
			MountOptions:           options,
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: sourceFor(path, kind)},
		},
	}, false)
}
