package mounttest

import (
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
)

// shared returns a directory that is a shared mount of its own.
func (c *contract) shared(name string) string {
	c.Helper()
	dir := c.mkdir(name)
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
	return strings.Join(c.top(target).Tags, " ")
}

func (c *contract) propagation() {
	source := c.shared("source")
	c.mkdir("source/later")
	c.mkdir("private/target")
	c.shared("shared") // whatever is mounted in there is shared at first
	for _, test := range []struct {
		want     mount.Propagation
		tags     string
		to, from bool // mounts spread to the new mount, and from it
	}{
		{mount.PropagationPrivate, "^$", false, false},
		{mount.PropagationSlave, "^" + strings.ReplaceAll(c.tags(source), "shared", "master") + "$", true, false},
		{mount.PropagationShared, "^" + c.tags(source) + "$", true, true},
	} {
		for _, target := range []string{c.mkdir("private/target"), c.mkdir("shared/target")} {
			before := c.table()
			c.mount(mount.Request{Source: source, Target: target, Propagation: test.want})
			require.Regexp(c, test.tags, c.tags(target), "%+v", test)
			c.spreads(source, target, test.to)
			c.spreads(target, source, test.from)
			c.unmount(target)
			require.Equal(c, before, c.table())
		}
	}
}

// spreads makes sure that what is mounted in one mount, and unmounted, is so in
// another, or is not.
func (c *contract) spreads(from, to string, want bool) {
	c.Helper()
	other := c.mkdir("other")
	from, to = filepath.Join(from, "later"), filepath.Join(to, "later")
	c.mount(mount.Request{Source: other, Target: from})
	c.isMountPoint(to, want)
	if want {
		require.Equal(c, c.top(from).Root, c.top(to).Root)
	}
	c.unmount(from)
	c.isMountPoint(from, false)
	c.isMountPoint(to, false)
}

// propagationOfSubmounts: what is included spreads as the request says, too.
func (c *contract) propagationOfSubmounts() {
	inner := c.mkdir("inner")
	c.mkdir("inner/later")
	for _, test := range []struct {
		name     string
		want     mount.Propagation
		to, from bool
	}{
		{"private", mount.PropagationPrivate, false, false},
		{"slave", mount.PropagationSlave, true, false},
		{"shared", mount.PropagationShared, true, true},
	} {
		source, target := c.shared(test.name+"/source"), c.mkdir(test.name+"/target")
		below := c.mkdir(test.name + "/source/below")
		c.mount(mount.Request{Source: inner, Target: below})
		c.mount(mount.Request{Source: below, Target: below, Stack: true, Propagation: mount.PropagationShared})
		c.mount(mount.Request{Source: source, Target: target, Submounts: mount.IncludeSubmounts, Propagation: test.want})
		require.Equal(c, test.from, c.tags(below) == c.tags(filepath.Join(target, "below")))
		c.spreads(below, filepath.Join(target, "below"), test.to)
		c.spreads(filepath.Join(target, "below"), below, test.from)
	}
}

// propagationOfFileSystem: a new file system has nobody to get mounts from.
func (c *contract) propagationOfFileSystem() {
	c.shared("shared")
	for _, target := range []string{c.mkdir("target"), c.mkdir("shared/target")} {
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
	// Neither has the mount of a source that is not shared.
	source, target := c.mkdir("source"), c.mkdir("target")
	c.mount(mount.Request{Source: source, Target: target, Propagation: mount.PropagationSlave})
	require.Empty(c, c.tags(target))
}
