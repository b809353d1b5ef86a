package contract

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// directory: a DirectoryMounter makes a directory with its mount, and removes it with the
// unmount. It may decline each call, and then has changed nothing.
func (c *contract) directory() {
	m, ok := mount.As[mount.DirectoryMounter](c.m)
	if !ok {
		return
	}
	source, pods := c.makeDir("source"), c.makeDir("pods")
	for _, wait := range []mount.Patience{mount.NoWait, mount.MayWait} {
		for name, dir := range map[string]mount.NewDirectory{
			"new":            {},
			"one/new":        {Below: pods},
			"one/two/new":    {Below: c.dir + "/"},
			"one/two/three/": {Below: "/"},
		} {
			dir.Perm, dir.Wait = 0o750, wait
			target := pods + "/" + name
			mounted, err := m.MountNew(c.Context(), mount.Request{Source: source, Target: target, Options: []string{"ro"}}, dir)
			require.NoError(c, ignoreWouldWait(err))
			if !mounted {
				require.Empty(c, c.entriesBelow(pods), "%s: the call has declined", name)
				require.NoError(c, os.MkdirAll(target, 0o750))
				c.mount(mount.Request{Source: source, Target: target, Options: []string{"ro"}})
			}
			target = filepath.Clean(target)
			require.True(c, c.topEntry(target).Flags&mount.ReadOnly != 0, name)
			c.removeDirectory(m, target, wait, true)
			c.removeDirectory(m, target, wait, false)
			require.NoError(c, os.Mkdir(target, 0o750))
			c.removeDirectory(m, target, wait, false)
			require.NoError(c, os.RemoveAll(pods+"/one"))
		}
	}
}

// removeDirectory calls UnmountRemove, does by the general calls what that has declined, and
// requires the result.
func (c *contract) removeDirectory(m mount.DirectoryMounter, target string, wait mount.Patience, isMounted bool) {
	c.Helper()
	unmounted, removed := m.UnmountRemove(c.Context(), target, wait)
	require.True(c, isMounted || !unmounted, "nothing is mounted")
	if isMounted && !unmounted {
		require.False(c, removed)
		c.requireMountPoint(target)
		c.unmount(target)
	}
	require.Empty(c, c.entriesAt(target))
	if !removed {
		require.NoError(c, ignoreMissing(os.Remove(target)))
	}
	_, err := os.Lstat(target)
	require.ErrorIs(c, err, fs.ErrNotExist)
}

// directoryDeclined: outside of the common case a DirectoryMounter changes nothing.
func (c *contract) directoryDeclined() {
	m, ok := mount.As[mount.DirectoryMounter](c.m)
	if !ok {
		return
	}
	source, pods := c.makeDir("source"), c.makeDir("pods")
	for _, dir := range []string{"full/inner", "readonly", "readonly/sub"} {
		c.makeDir("pods/" + dir)
	}
	require.NoError(c, os.WriteFile(pods+"/file", nil, 0o600))
	require.NoError(c, os.Symlink(source, pods+"/link"))
	c.mount(mount.Request{Source: pods + "/readonly", Target: pods + "/readonly", Options: []string{"ro"}})
	c.mount(mount.Request{Source: "last", Target: c.makeDir("pods/tmpfs"), FSType: "tmpfs"})
	ended, cancel := context.WithCancel(c.Context())
	cancel()
	before, tableBefore := c.entriesBelow(c.dir), c.table()
	for name, test := range map[string]struct {
		change func(req *mount.Request)
		below  string
		ctx    context.Context
	}{
		"target exists":            {change: func(r *mount.Request) { r.Target = pods + "/full" }, below: pods},
		"target is a file":         {change: func(r *mount.Request) { r.Target = pods + "/file" }, below: pods},
		"target is a link":         {change: func(r *mount.Request) { r.Target = pods + "/link" }, below: pods},
		"parent is missing":        {change: func(r *mount.Request) { r.Target = pods + "/none/new" }},
		"parent is not below":      {change: func(r *mount.Request) { r.Target = pods + "/none/new" }, below: pods + "/full"},
		"parent is Below":          {change: func(r *mount.Request) { r.Target = pods + "/none/new" }, below: pods + "/none"},
		"parent begins like Below": {change: func(r *mount.Request) { r.Target = pods + "/none-2/new" }, below: pods + "/none"},
		"parent is a link":         {change: func(r *mount.Request) { r.Target = pods + "/link/new" }, below: pods},
		"parent is a file":         {change: func(r *mount.Request) { r.Target = pods + "/file/new" }, below: pods},
		"link above":               {change: func(r *mount.Request) { r.Target = pods + "/link/none/new" }, below: pods},
		"read-only mount":          {change: func(r *mount.Request) { r.Target = pods + "/readonly/none/new" }, below: pods},
		"source is missing":        {change: func(r *mount.Request) { r.Source += "/none" }, below: pods},
		"source is a file":         {change: func(r *mount.Request) { r.Source = pods + "/file" }, below: pods},
		"invalid option":           {change: func(r *mount.Request) { r.Options = []string{"bind,no\x00ne"} }, below: pods},
		"empty request":            {change: func(r *mount.Request) { *r = mount.Request{} }, below: pods},
		"relative":                 {change: func(r *mount.Request) { r.Target = "pods/new" }, below: pods},
		"root":                     {change: func(r *mount.Request) { r.Target = "/" }, below: "/"},
		"file system":              {change: func(r *mount.Request) { r.FSType = "tmpfs" }, below: pods},
		"stacked":                  {change: func(r *mount.Request) { r.Stack = true }, below: pods},
		"remount":                  {change: func(r *mount.Request) { r.Remount, r.Source = true, "" }, below: pods},
		"ctx has ended":            {change: func(*mount.Request) {}, below: pods, ctx: ended},
	} {
		for _, wait := range []mount.Patience{mount.NoWait, mount.MayWait} {
			req := mount.Request{Source: source, Target: pods + "/missing/new"}
			test.change(&req)
			ctx := test.ctx
			if ctx == nil {
				ctx = c.Context()
			}
			mounted, err := m.MountNew(ctx, req, mount.NewDirectory{Perm: 0o750, Below: test.below, Wait: wait})
			require.NoError(c, ignoreWouldWait(err), name)
			require.False(c, mounted, name)
			require.Equal(c, before, c.entriesBelow(c.dir), name)
			require.Equal(c, tableBefore, c.table(), name)
		}
	}
	for _, target := range []string{"full", "link", "file", "link/x", "file/x", "tmpfs"} {
		unmounted, removed := m.UnmountRemove(c.Context(), pods+"/"+target, mount.MayWait)
		require.False(c, unmounted || removed, target)
	}
	require.Equal(c, before, c.entriesBelow(c.dir))
	c.requireMountPoint(pods + "/tmpfs")
	_, removed := m.UnmountRemove(c.Context(), pods+"/none/x", mount.MayWait)
	require.False(c, removed, "the parent is missing")
	c.makeDir("pods/other")
	c.makeDir("pods/shown/inner")
	c.mount(mount.Request{Source: source, Target: pods + "/shown/inner"})
	c.mount(mount.Request{Source: pods + "/shown", Target: pods + "/other", Submounts: mount.HideSubmounts})
	_, removed = m.UnmountRemove(c.Context(), pods+"/other/inner", mount.MayWait)
	require.False(c, removed, "the directory is a mount point at another path")
	c.requireMountPoint(pods + "/shown/inner")
	unmounted, removed := m.UnmountRemove(c.Context(), pods+"/readonly", mount.MayWait)
	require.False(c, removed, "the directory is not empty")
	c.requireMountState(pods+"/readonly", !unmounted)
}

func ignoreWouldWait(err error) error {
	if errors.Is(err, mount.ErrWouldWait) {
		return nil
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// entriesBelow returns the entries below a directory, with their types.
func (c *contract) entriesBelow(dir string) (entries []string) {
	c.Helper()
	require.NoError(c, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && name != dir {
			entries = append(entries, entry.Type().String()+" "+name)
		}
		return err
	}))
	return entries
}
