package flexvolume

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func newRegister(t *testing.T) *volume.VolumePluginMgr {
	t.Helper()
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	mgr, err := volume.NewVolumePluginMgr(t.Context(), host)
	require.NoError(t, err)
	return mgr
}

// TestDiscover: each directory of a driver gets a plugin, once.
func TestDiscover(t *testing.T) {
	dir, mgr := t.TempDir(), newRegister(t)
	config := Config{Dir: filepath.Join(dir, "missing"), Mounter: mounttest.NewFake(mount.Config{})}
	names, err := Discover(t.Context(), mgr, config)
	require.NoError(t, err)
	require.Empty(t, names)
	config.Dir = dir
	for _, name := range []string{"b.example~two", "a.example~one", ".hidden~x", "novendor", "a~b~c", "~x", "x~", "bad name~x", strings.Repeat("x", 100) + "~" + strings.Repeat("y", 100)} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a~file"), nil, 0o755))
	require.NoError(t, os.Symlink("a.example~one", filepath.Join(dir, "a~link")))
	for _, want := range [][]string{{"a.example/one", "b.example/two"}, nil} {
		names, err = Discover(t.Context(), mgr, config)
		require.NoError(t, err)
		require.Equal(t, want, names)
		require.Len(t, mgr.Plugins(), 2)
	}
	spec := pv("pv", nil)
	spec.PersistentVolume.Spec.FlexVolume.Driver = "b.example/two"
	plugin, err := mgr.FindPluginBySpec(spec)
	require.NoError(t, err)
	require.Equal(t, "b.example/two", plugin.GetPluginName())

	var invalid *field.Error
	_, err = Discover(t.Context(), mgr, Config{Dir: dir})
	require.ErrorAs(t, err, &invalid)
	_, err = Discover(t.Context(), nil, config)
	require.ErrorAs(t, err, &invalid)
	require.ErrorAs(t, Watch(t.Context(), nil, config, nil), &invalid)
	require.ErrorAs(t, Watch(t.Context(), mgr, Config{}, nil), &invalid)
	config.Dir = filepath.Join(dir, "a~file")
	_, err = Discover(t.Context(), mgr, config)
	require.ErrorContains(t, err, "not a directory")
}

// TestWatch: a driver that is installed later gets a plugin.
func TestWatch(t *testing.T) {
	dir, mgr := t.TempDir(), newRegister(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a.example~one"), 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	found, ended := make(chan string, 10), make(chan error, 1)
	config := Config{Dir: dir, Mounter: mounttest.NewFake(mount.Config{})}
	go func() {
		ended <- Watch(ctx, mgr, config, func(names []string, err error) {
			if err != nil {
				names = append(names, err.Error())
			}
			found <- strings.Join(names, " ")
		})
	}()
	require.Equal(t, "a.example/one", <-found)
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".new"), 0o755))
	require.NoError(t, os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, "b.example~two")))
	require.Equal(t, "b.example/two", <-found)
	require.Len(t, mgr.Plugins(), 2)
	cancel()
	require.NoError(t, <-ended)
}
