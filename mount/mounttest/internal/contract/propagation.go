package contract

import (
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// newSharedDir returns a directory that is a shared mount of its own.
func (c *contract) newSharedDir(name string) string {
	c.Helper()
	dir := c.makeDir(name)
	req := mount.Request{Source: "tmpfs", Target: dir, FSType: "tmpfs", Propagation: mount.PropagationShared}
	if c.fake != nil { // whose file systems are empty
		req.Source, req.FSType = dir, ""
	}
	c.mount(req)
	require.Regexp(c, "^shared:[0-9]+$", c.tags(dir))
	return dir
}

func (c *contract) tags(target string) string {
	c.Helper()
	return strings.Join(c.topEntry(target).Tags, " ")
}

// propagation: a bind mount has the requested propagation, in private and in shared parents.
func (c *contract) propagation() {
	source := c.newSharedDir("source")
	c.makeDir("source/later")
	c.makeDir("private/target")
	c.newSharedDir("shared") // a mount in a shared mount is shared at first
	for _, test := range []struct {
		want     mount.Propagation
		tags     string
		to, from bool // mounts propagate to the new mount, and from it
	}{
		{mount.PropagationPrivate, "^$", false, false},
		{mount.PropagationSlave, "^" + strings.ReplaceAll(c.tags(source), "shared", "master") + "$", true, false},
		{mount.PropagationShared, "^" + c.tags(source) + "$", true, true},
	} {
		for _, target := range []string{c.makeDir("private/target"), c.makeDir("shared/target")} {
			before := c.table()
			c.mount(mount.Request{Source: source, Target: target, Propagation: test.want})
			require.Regexp(c, test.tags, c.tags(target), "%+v", test)
			c.requirePropagation(source, target, test.to)
			c.requirePropagation(target, source, test.from)
			c.unmount(target)
			require.Equal(c, before, c.table())
		}
	}
}

// requirePropagation requires a mount in one mount, and its unmount, to propagate to another,
// or not.
func (c *contract) requirePropagation(from, to string, want bool) {
	c.Helper()
	other := c.makeDir("other")
	from, to = filepath.Join(from, "later"), filepath.Join(to, "later")
	c.mount(mount.Request{Source: other, Target: from})
	c.requireMountState(to, want)
	if want {
		require.Equal(c, c.topEntry(from).Root, c.topEntry(to).Root)
	}
	c.unmount(from)
	c.requireNoMountPoint(from)
	c.requireNoMountPoint(to)
}

// propagationOfSubmounts: included mounts get the requested propagation, too.
func (c *contract) propagationOfSubmounts() {
	inner := c.makeDir("inner")
	c.makeDir("inner/later")
	for _, test := range []struct {
		name     string
		want     mount.Propagation
		to, from bool
	}{
		{"private", mount.PropagationPrivate, false, false},
		{"slave", mount.PropagationSlave, true, false},
		{"shared", mount.PropagationShared, true, true},
	} {
		source, target := c.newSharedDir(test.name+"/source"), c.makeDir(test.name+"/target")
		below := c.makeDir(test.name + "/source/below")
		c.mount(mount.Request{Source: inner, Target: below})
		c.mount(mount.Request{Source: below, Target: below, Stack: true, Propagation: mount.PropagationShared})
		c.mount(mount.Request{Source: source, Target: target, Submounts: mount.IncludeSubmounts, Propagation: test.want})
		require.Equal(c, test.from, c.tags(below) == c.tags(filepath.Join(target, "below")))
		c.requirePropagation(below, filepath.Join(target, "below"), test.to)
		c.requirePropagation(filepath.Join(target, "below"), below, test.from)
	}
}

// propagationOfFileSystem: a new file system has no peer group to receive mounts from.
func (c *contract) propagationOfFileSystem() {
	c.newSharedDir("shared")
	for _, target := range []string{c.makeDir("target"), c.makeDir("shared/target")} {
		for want, tags := range map[mount.Propagation]string{
			mount.PropagationPrivate: "^$",
			mount.PropagationSlave:   "^$",
			mount.PropagationShared:  "^shared:[0-9]+$",
		} {
			c.mount(mount.Request{Source: "tmpfs", Target: target, FSType: "tmpfs", Propagation: want})
			require.Regexp(c, tags, c.tags(target))
			c.unmount(target)
		}
	}
	// A bind mount of a source that is not shared has none either.
	source, target := c.makeDir("source"), c.makeDir("target")
	c.mount(mount.Request{Source: source, Target: target, Propagation: mount.PropagationSlave})
	require.Empty(c, c.tags(target))
}
