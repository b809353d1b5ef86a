package contract

import (
	"errors"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// idempotent: repeated calls of Mount and Unmount succeed, and change nothing.
func (c *contract) idempotent() {
	source, target := c.makeDir("source"), c.makeDir("target")
	for _, options := range [][]string{nil, {"ro", "noexec"}} {
		for range 3 {
			c.mount(mount.Request{Source: source, Target: target, Options: options})
			require.Len(c, c.entriesAt(target), 1)
		}
		c.unmount(target)
		for range 3 {
			c.unmount(target)
			c.requireNoMountPoint(target)
		}
	}
}

// idempotentTmpfs: Mount compares type, source and flags of a mounted file system.
func (c *contract) idempotentTmpfs() {
	target := c.makeDir("target")
	for range 3 {
		c.mount(mount.Request{Source: "a", Target: target, FSType: "tmpfs", Options: []string{"size=1m", "ro"}})
		require.Len(c, c.entriesAt(target), 1)
	}
	for _, req := range []mount.Request{
		{Source: "b", Target: target, FSType: "tmpfs", Options: []string{"ro"}},
		{Source: "a", Target: target, FSType: "tmpfs"},
		{Source: c.makeDir("source"), Target: target},
	} {
		c.requireFails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), req) })
	}
}

// idempotentData: Mount does not compare options for the file system, which the kernel reports in
// another form.
func (c *contract) idempotentData() {
	target := c.makeDir("target")
	for _, data := range [][]string{{"size=1m", "mode=700"}, {"size=1m", "mode=700"}, {"size=2m"}, nil} {
		req := mount.Request{Source: "a", Target: target, FSType: "tmpfs", Options: append(data, "noexec")}
		c.mount(req)
		require.Len(c, c.entriesAt(target), 1)
	}
	options := c.entriesAt(target)[0].SuperOptions
	c.mount(mount.Request{Source: "a", Target: target, FSType: "tmpfs", Options: []string{"size=2m", "noexec"}})
	require.Equal(c, options, c.entriesAt(target)[0].SuperOptions, "the existing mount keeps its options")
	c.requireFails(mount.ErrMounted, func() error {
		return c.m.Mount(c.Context(), mount.Request{Source: "a", Target: target, FSType: "tmpfs", Options: []string{"size=1m", "mode=700"}})
	})
}

// otherMount: Mount on a target with another mount is ErrMounted and names source and target.
func (c *contract) otherMount() {
	source, other, target := c.makeDir("source"), c.makeDir("other"), c.makeDir("target")
	c.mount(mount.Request{Source: source, Target: target})
	for _, req := range []mount.Request{
		{Source: other, Target: target},
		{Source: source, Target: target, Options: []string{"ro"}},
		{Source: source, Target: target, Options: []string{"noexec"}},
		{Source: "another", Target: target, FSType: "tmpfs"}, // the others may be on a tmpfs
	} {
		before := c.entriesAt(target)
		err := c.requireFails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), req) })
		var flags *mount.FlagsError
		require.Equal(c, req.Source == source, errors.As(err, &flags), "only the flags differ")
		if flags != nil {
			require.Equal(c, before[0].Flags, flags.Have)
			require.NotEqual(c, flags.Have, flags.Want)
		}
		require.Equal(c, before, c.entriesAt(target), "an error changes nothing")
		var mountErr *mount.Error
		require.ErrorAs(c, err, &mountErr)
		require.Equal(c, "mount", mountErr.Op)
		require.Equal(c, target, mountErr.Target)
		require.Equal(c, req.Source, mountErr.Source)
	}
}
