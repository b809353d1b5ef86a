package volumetest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

var volumes atomic.Int32

// tempDir returns a new directory whose path has no symbolic link.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

func newSpec(t *testing.T) *volume.Spec {
	name := fmt.Sprintf("volume-%d", volumes.Add(1))
	return volumetest.NewFakePlugin(volumetest.FakeConfig{}).NewSpec(name, tempDir(t))
}

func fakeConfig() volumetest.Config {
	noDirectory := volumetest.NewFakePlugin(volumetest.FakeConfig{}).NewSpec("invalid", "")
	relative := volumetest.NewFakePlugin(volumetest.FakeConfig{}).NewSpec("invalid", "a/b")
	return volumetest.Config{
		New: func(_ *testing.T, _ volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
			return volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter})
		},
		Spec: newSpec,
		ReadOnlySpec: func(t *testing.T) *volume.Spec {
			spec := newSpec(t)
			spec.PersistentVolume.Spec.CSI.ReadOnly = true
			return spec
		},
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "none"}),
			volume.NewSpecFromVolume(&v1.Volume{
				Name:         "nfs",
				VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "a.example", Path: "/"}},
			}),
		},
		Invalid: map[string]*volume.Spec{"no directory": noDirectory, "relative path": relative},
		Backing: func(spec *volume.Spec) string { return spec.PersistentVolume.Spec.CSI.VolumeHandle },
	}
}

// What a plugin leaves in its own directory is a leak, too. The test that has to fail
// does so in a process of its own.
func TestLeakIsCaught(t *testing.T) {
	const leaks = "VOLUMETEST_LEAKS"
	if os.Getenv(leaks) != "" {
		config := fakeConfig()
		config.New = func(_ *testing.T, host volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
			return &leaking{volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter}), host}
		}
		if kept := os.Getenv(leaks); kept != "nothing" {
			config.Keeps = func(name string) bool { return strings.HasPrefix(name, kept) }
		}
		volumetest.TestPlugin(t, config)
		return
	}
	for kept, caught := range map[string]bool{"nothing": true, "other": true, "left": false} {
		run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLeakIsCaught$/^LeavesNothing$")
		run.Env = append(os.Environ(), leaks+"="+kept)
		out, err := run.CombinedOutput()
		require.Equal(t, caught, err != nil, "it keeps %s: %v\n%s", kept, err, out)
		require.Equal(t, caught, strings.Contains(string(out), "something is left of volumes that are gone"), "%s", out)
	}
}

// leaking leaves a file for each volume.
type leaking struct {
	*volumetest.FakePlugin
	host volume.VolumeHost
}

func (p *leaking) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	own, err := p.host.PluginDir(p.GetPluginName())
	if err == nil {
		err = os.WriteFile(own+"/left-"+name, nil, 0o600)
	}
	if err != nil {
		return nil, err
	}
	return p.FakePlugin.NewUnmounter(name, pod)
}

func TestFakePluginKeepsTheContract(t *testing.T) {
	volumetest.TestPlugin(t, fakeConfig())
}

func TestFakePluginKeepsTheContractOnTheRealKernel(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	config := fakeConfig()
	config.NewMounter = func(*testing.T) mount.Interface { return mount.New(mount.Config{}) }
	volumetest.TestPlugin(t, config)
}
