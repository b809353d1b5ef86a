package contract

import (
	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// badInput: an invalid path, option or type is an InputError that names the field, and no mount
// changes.
func (c *contract) badInput() {
	dir := c.makeDir("dir")
	for _, target := range []string{"", "/", "//", "/.", "relative", dir + "/../dir", dir + "\x00"} {
		c.requireRefused("Target", mount.Request{Source: dir, Target: target})
		var input *mount.InputError
		for _, err := range []error{c.m.Unmount(c.Context(), target), c.m.UnmountTree(c.Context(), target)} {
			require.ErrorAs(c, err, &input, "%q", target)
			require.Equal(c, "Target", input.Field)
		}
	}
	for _, path := range []string{"", "relative", dir + "/../dir", "/..", dir + "\x00"} {
		for _, query := range []func() error{
			func() error { _, err := c.m.IsMountPoint(c.Context(), path); return err },
			func() error { _, err := c.m.MountRefs(c.Context(), path); return err },
			func() error { _, err := c.m.Resolve(c.Context(), path); return err },
		} {
			var input *mount.InputError
			require.ErrorAs(c, query(), &input, "%q", path)
			require.Equal(c, "Path", input.Field)
			require.Equal(c, path, input.Value)
		}
	}
	for _, source := range []string{"", "relative", dir + "/../dir", dir + "\x00"} {
		c.requireRefused("Source", mount.Request{Source: source, Target: dir})
	}
	for _, option := range []string{"", "=", "a,b", "a\x00", "bind", "remount", "loop=/dev/loop0", "X-y", "context=a", "size=1", "sync"} {
		c.requireRefused("Options[1]", mount.Request{Source: dir, Target: dir, Options: []string{"ro", option}})
	}
	c.requireRefused("Options[1]", mount.Request{Source: dir, Target: dir, Options: []string{"ro", "rw"}})
	c.requireRefused("FSType", mount.Request{Source: dir, Target: dir, FSType: "a/b"})
	c.requireRefused("Secrets[0]", mount.Request{Source: dir, Target: dir, Secrets: []mount.Secret{mount.NewSecret("a=b")}})
	c.requireNoMountPoint(dir)
}

// root: queries about the root are permitted; mounting on it is not.
func (c *contract) root() {
	for _, path := range []string{"/", "//", "/.", "/./", "/.//."} {
		is, err := c.m.IsMountPoint(c.Context(), path)
		require.NoError(c, err, path)
		require.True(c, is, path)
		_, err = c.m.MountRefs(c.Context(), path)
		require.NoError(c, err, path)
	}
}

// badInputOfTree: an invalid Submounts, Propagation or Helper is an InputError.
func (c *contract) badInputOfTree() {
	source, target := c.makeDir("source"), c.makeDir("target")
	for _, submounts := range []mount.Submounts{-1, mount.IncludeSubmounts + 1, 1 << 30} {
		c.requireRefused("Submounts", mount.Request{Source: source, Target: target, Submounts: submounts})
	}
	for _, submounts := range []mount.Submounts{mount.HideSubmounts, mount.IncludeSubmounts} {
		c.requireRefused("Submounts", mount.Request{Source: "x", Target: target, FSType: "tmpfs", Submounts: submounts})
	}
	for _, propagation := range []mount.Propagation{-1, mount.PropagationShared + 1, 1 << 30} {
		c.requireRefused("Propagation", mount.Request{Source: source, Target: target, Propagation: propagation})
		c.requireRefused("Propagation", mount.Request{Source: "x", Target: target, FSType: "tmpfs", Propagation: propagation})
	}
	for _, helper := range []mount.HelperUse{-1, mount.HelperAlways + 1} {
		c.requireRefused("Helper", mount.Request{Source: "x", Target: target, FSType: "tmpfs", Helper: helper})
	}
	c.requireRefused("Helper", mount.Request{Source: source, Target: target, Helper: mount.HelperNever})
}

// badInputOfIDMap: an invalid or overlapping range is an InputError that names the range.
func (c *contract) badInputOfIDMap() {
	source, target := c.makeDir("source"), c.makeDir("target")
	good := []mount.IDRange{{Count: 1}}
	const last = 1<<32 - 1
	for field, ranges := range map[string][][]mount.IDRange{
		"":    {nil, make([]mount.IDRange, 341)},
		"[0]": {{{}}, {{Stored: last, Count: 1}}, {{Shown: last, Count: 1}}, {{Stored: 1, Count: last}}},
		"[1]": {{{Count: 2}, {Stored: 1, Shown: 9, Count: 1}}, {{Count: 2}, {Stored: 9, Shown: 1, Count: 1}}, {{Count: 2}, {Stored: 9}}},
	} {
		for _, bad := range ranges {
			c.requireRefused("IDMap.UIDs"+field, mount.Request{Source: source, Target: target, IDMap: mount.IDMap{UIDs: bad, GIDs: good}})
			c.requireRefused("IDMap.GIDs"+field, mount.Request{Source: source, Target: target, IDMap: mount.IDMap{UIDs: good, GIDs: bad}})
		}
	}
}

// badInputOfRemount: a remount has no other fields, and no flags that a mount may not have.
func (c *contract) badInputOfRemount() {
	source, target := c.makeDir("source"), c.makeDir("target")
	c.mount(mount.Request{Source: source, Target: target})
	ids := []mount.IDRange{{Count: 1}}
	for field, req := range map[string]mount.Request{
		"Source":      {Source: source},
		"FSType":      {FSType: "tmpfs"},
		"Secrets[0]":  {Secrets: []mount.Secret{mount.NewSecret("a=b")}},
		"Stack":       {Stack: true},
		"Submounts":   {Submounts: mount.IncludeSubmounts},
		"Propagation": {Propagation: mount.PropagationShared},
		"Helper":      {Helper: mount.HelperNever},
		"IDMap":       {IDMap: mount.IDMap{UIDs: ids, GIDs: ids}},
		"Options[0]":  {Options: []string{"suid"}},
		"Options[1]":  {Options: []string{"ro", "size=1m"}},
		"Options[2]":  {Options: []string{"noexec", "ro", "rw"}},
	} {
		req.Target, req.Remount = target, true
		c.requireRefused(field, req)
	}
	for _, bad := range []string{"", "/", "relative", target + "/../target", target + "\x00"} {
		c.requireRefused("Target", mount.Request{Target: bad, Remount: true})
	}
}
