package volumetest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestPlantForLaterPod: an entry that one pod has replaced stays in a volume whose files outlive TearDown, and a
// plugin that follows it when the volume is set up again fails the contract. Without Config.Backing the entries
// can be a user's, and the contract replaces none; nor with Config.Ephemeral, if a file outlives TearDown.
func TestPlantForLaterPod(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	failureOf := func(test string, config volumetest.Config[recorder]) string {
		var failed []string
		newSpec := config.Spec
		config.Spec = func(r recorder) *volume.Spec {
			spec := newSpec(r)
			r.Cleanup(func() { requireNoPlants(t, firstWriterConfig().Backing(spec)) })
			return spec
		}
		volumetest.TestPlugin(recorder{t, test, &failed}, config)
		return strings.Join(failed, "\n")
	}
	for test, by := range map[string]string{"PlantedLink": "a symbolic link to a file", "PlantedHardLink": "a hard link"} {
		require.Contains(t, failureOf(test, firstWriterConfig()),
			"SetUp after the pod has put "+by+` at "color" has changed a file outside of the volume`)
		withoutBacking := firstWriterConfig()
		withoutBacking.Backing = nil
		require.Empty(t, failureOf(test, withoutBacking))
	}

	users := firstWriterConfig()
	users.Spec = func(r recorder) *volume.Spec {
		spec := newSpec(r.T)
		require.NoError(t, os.WriteFile(filepath.Join(users.Backing(spec), "color"), []byte("red"), 0o600))
		return spec
	}
	require.Empty(t, failureOf("Planted", users), "the plugin has written into a user's file")

	wrong := firstWriterConfig()
	wrong.Backing = func(spec *volume.Spec) string { return filepath.Dir(firstWriterConfig().Backing(spec)) }
	require.Contains(t, failureOf("PlantedDirectoryLink", wrong), "which is not the directory that the volume shows")
	ephemeral := firstWriterConfig()
	ephemeral.Ephemeral = true
	require.Contains(t, failureOf("PlantedLink", ephemeral),
		"a file has outlived TearDown; if the files of a volume outlive TearDown, clear Config.Ephemeral")
}

// requireNoPlants verifies that a user's storage has nothing but the file of the plugin.
func requireNoPlants(t *testing.T, store string) {
	left, err := os.ReadDir(store)
	require.NoError(t, err)
	for _, entry := range left {
		info, err := entry.Info()
		require.NoError(t, err)
		require.Equal(t, "color", entry.Name())
		require.Zero(t, entry.Type(), "an entry of a pod is left")
		require.EqualValues(t, 1, info.Sys().(*syscall.Stat_t).Nlink, "a hard link of a pod is left")
	}
}

// A recorder runs one test of the contract, and records its failure.
type recorder struct {
	*testing.T
	only   string
	failed *[]string
}

func (r recorder) Run(name string, test func(recorder)) bool {
	return !strings.HasPrefix(name, r.only) || r.T.Run(name, func(t *testing.T) {
		ended := make(chan struct{})
		go func() { // which a failure ends
			defer close(ended)
			test(recorder{t, r.only, r.failed})
		}()
		<-ended
	})
}

func (r recorder) Fatal(args ...any) { r.fail(fmt.Sprint(args...)) }

func (r recorder) Fatalf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }

func (r recorder) fail(text string) {
	*r.failed = append(*r.failed, text)
	runtime.Goexit()
}

func firstWriterConfig() volumetest.Config[recorder] {
	return volumetest.Config[recorder]{
		New: func(_ recorder, _ volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
			return firstWriter{volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter}), mounter}
		},
		NewMounter: func(recorder) mount.Interface { return mount.New(mount.Config{}) },
		Spec:       func(r recorder) *volume.Spec { return newSpec(r.T) },
		Backing:    func(spec *volume.Spec) string { return spec.PersistentVolume.Spec.CSI.VolumeHandle },
	}
}

// A firstWriter writes a file into each volume that is not mounted yet.
type firstWriter struct {
	volume.VolumePlugin
	mounter mount.Interface
}

func (w firstWriter) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := w.VolumePlugin.NewMounter(spec, pod)
	return firstWriterMounter{m, w.mounter}, err
}

type firstWriterMounter struct {
	volume.Mounter
	mounter mount.Interface
}

func (m firstWriterMounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	mounted, _ := m.mounter.IsMountPoint(ctx, m.GetPath())
	if err := m.Mounter.SetUp(ctx, args); err != nil || mounted {
		return err
	}
	return os.WriteFile(filepath.Join(m.GetPath(), "color"), []byte("blue"), 0o644)
}
