package contract

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
)

// mounts returns the mounts in the host's directories, without those of devices.
func (c *contract) mounts() mount.Table {
	c.Helper()
	list, err := c.mounter.List(c.Context())
	require.NoError(c, err)
	var ours mount.Table
	for _, info := range list {
		if strings.HasPrefix(info.Mountpoint, tablepath.Of(c.host.Root())+"/") && !c.devices[info.Mountpoint] {
			ours = append(ours, info)
		}
	}
	return ours
}

// requireUp verifies that there is one mount at path, and no other outside of the plugin's own
// directory, and returns it. For a plain volume it verifies that there is none, and returns the
// zero value.
func (c *contract) requireUp(path string) mount.Info {
	c.Helper()
	mounts := c.podMounts()
	if c.Plain {
		require.Empty(c, mounts, "a plain volume is no mount"+hintMount)
		require.DirExists(c, path)
		return mount.Info{}
	}
	require.Len(c, mounts, 1, "one mount for one volume"+hintIf(len(mounts) == 0, hintPlain))
	require.Equal(c, tablepath.Of(path), mounts[0].Mountpoint)
	return mounts[0]
}

// podMounts returns the mounts outside of the plugin's own directory.
func (c *contract) podMounts() mount.Table {
	c.Helper()
	own := tablepath.Of(c.ownDir()) + "/"
	var mounts mount.Table
	for _, info := range c.mounts() {
		if !strings.HasPrefix(info.Mountpoint, own) {
			mounts = append(mounts, info)
		}
	}
	return mounts
}

// ownDir returns the plugin's directory for all pods.
func (c *contract) ownDir() string {
	c.Helper()
	own, err := c.host.PluginDir(c.plugin.GetPluginName())
	require.NoError(c, err)
	return own
}

// requireDown verifies that path does not exist, and that no mount is left outside of the
// plugin's own directory.
func (c *contract) requireDown(path string) {
	c.Helper()
	require.Empty(c, c.podMounts(), "a mount is left")
	_, err := os.Lstat(path)
	require.ErrorIs(c, err, fs.ErrNotExist, "the volume's directory is left")
}

// podState is state without the plugin's own directory, whose entries a later call may remove.
func (c *contract) podState() state {
	c.Helper()
	s := c.state()
	s.mounts = c.podMounts()
	maps.DeleteFunc(s.files, func(name, _ string) bool { return c.isOfPlugins(name) })
	return s
}

// isOfPlugins reports whether name is the directory of all plugins, or in it.
func (c *contract) isOfPlugins(name string) bool {
	return strings.HasPrefix(name+"/", filepath.Join(c.host.Root(), "plugins")+"/")
}

// requirePodsUnchanged is requireUnchanged for what podState returned.
func (c *contract) requirePodsUnchanged(before state, msg string) {
	c.Helper()
	require.Equal(c, before, c.podState(), msg)
}

// requireGone verifies that path does not exist, and that no mount is left.
func (c *contract) requireGone(path string) {
	c.Helper()
	require.Empty(c, c.mounts(), "a mount is left")
	_, err := os.Lstat(path)
	require.ErrorIs(c, err, fs.ErrNotExist, "the volume's directory is left")
}

// A state is the visible state of the host: files, by path, and mounts.
type state struct {
	files  map[string]string
	mounts mount.Table
}

func (c *contract) state() state {
	c.Helper()
	s := state{files: map[string]string{}, mounts: c.mounts()}
	err := filepath.WalkDir(c.host.Root(), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err == nil {
			s.files[path] = info.Mode().String()
		}
		return err
	})
	require.NoError(c, err)
	return s
}

// requireUnchanged verifies that nothing has changed since before.
func (c *contract) requireUnchanged(before state, msg string) {
	c.Helper()
	require.Equal(c, before, c.state(), msg)
}

// requireRefused verifies that an error names the invalid field.
func (c *contract) requireRefused(err error, what string) {
	c.Helper()
	require.Error(c, err, "%s was not refused", what)
	var ofField *field.Error
	var ofMount *mount.InputError
	require.True(c, errors.As(err, &ofField) || errors.As(err, &ofMount),
		"%s: want a *field.Error or *mount.InputError, have %T: %v", what, err, err)
	require.Less(c, len(err.Error()), 1024, "%s: hostile text fills the log", what)
}
