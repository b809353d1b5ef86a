package contract

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/volume"
)

// An owned is the owner and the permissions of a file.
type owned struct {
	mode      fs.FileMode
	uid, gid  int64
	readsOnly bool // also for its owners
}

// owners returns the owners of all files in a volume, by path in it, without links. It returns
// nothing if the files are not visible.
func (c *contract) owners(spec *volume.Spec, mounter volume.Mounter) map[string]owned {
	c.Helper()
	found := map[string]owned{}
	dir := c.contents(spec, mounter)
	if _, err := os.Lstat(dir); err != nil {
		return found // not set up
	}
	readsOnly := mounter.GetAttributes().ReadOnly
	require.NoError(c, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() == fs.ModeSymlink {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if uid, gid, known := ownersOf(info); known {
			found[name[len(dir):]] = owned{info.Mode(), uid, gid, readsOnly}
		}
		return nil
	}))
	return found
}

// contents returns the directory with a volume's files, or "".
func (c *contract) contents(spec *volume.Spec, mounter volume.Mounter) string {
	fake := c.fake() != nil
	switch {
	case !fake, c.Plain:
		return mounter.GetPath()
	case c.Backing != nil:
		return c.Backing(spec)
	}
	return ""
}

func (c *contract) requireUser(a argument, spec *volume.Spec, mounter volume.Mounter) {
	c.Helper()
	for name, is := range c.owners(spec, mounter) {
		mayRead := is.uid == *a.args.FsUser || is.readsOnly && is.mode&0o004 != 0
		require.True(c, mayRead, "%q is not of user %d: %+v%s", name, *a.args.FsUser, is, a.hint())
	}
}

func (c *contract) requireGroup(a argument, spec *volume.Spec, mounter volume.Mounter) {
	c.Helper()
	for name, is := range c.owners(spec, mounter) {
		if is.readsOnly && is.mode.IsDir() && is.mode&0o005 == 0o005 {
			continue // all users may enter the directories above the files
		}
		require.Equal(c, *a.args.FsGroup, is.gid, "the group of %q%s", name, a.hint())
		want := is.groupMode()
		require.Equal(c, want, is.mode&want, "%q is not for the group: %v%s", name, is.mode, a.hint())
	}
}

// groupMode returns the bits that a group needs.
func (o owned) groupMode() fs.FileMode {
	mode := fs.FileMode(0o040)
	if !o.readsOnly {
		mode |= 0o020
	}
	if o.mode.IsDir() {
		mode |= 0o010
		if !o.readsOnly {
			mode |= fs.ModeSetgid
		}
	}
	return mode
}

// ownedByThePod: the files of a volume that is set up belong to the pod, also its root, whose
// owner databases change. No later call, also after a restart, changes them. In a volume that
// the pod only reads the plugin may restore them.
func (c *contract) ownedByThePod() {
	if c.fake() != nil {
		c.Skip("the kernel is a fake: a pod sees nothing of the volume")
	}
	spec := c.filledVolume()
	var args volume.MounterArgs
	hint := ""
	if c.Arguments.FsGroup == Honoured {
		group := c.otherGroup()
		args.FsGroup = &group
		hint = argument{name: "FsGroup", handling: Honoured}.hint()
	}
	mounter := c.newMounter(spec)
	for range 2 {
		require.NoError(c, mounter.SetUp(c.Context(), args), "SetUp%s", hint)
		_ = os.Chown(mounter.GetPath(), 999, 999) // the namespace may not map these IDs
		require.NoError(c, os.Chmod(mounter.GetPath(), 0o700))
		up, owners := c.requireUp(mounter.GetPath()), c.owners(spec, mounter)
		setUp := verb{"set up", func(c *contract, p volume.VolumePlugin, spec *volume.Spec, _ bool) bool {
			c.verbSetUpWith(p, spec, args)
			return true
		}}
		for _, v := range []verb{setUp, {"construct", (*contract).verbConstruct}, {"measure", (*contract).verbMeasure}, setUp} {
			v.do(c, c.restarted(), spec, true)
			require.Equal(c, up, c.requireUp(mounter.GetPath()), v.name)
			if !mounter.GetAttributes().ReadOnly {
				require.Equal(c, owners, c.owners(spec, mounter), "%s changed what is the pod's", v.name)
			}
		}
		c.mustTearDown(spec)
	}
}

// otherGroup returns a group other than the test's own, if there is one.
func (c *contract) otherGroup() int64 {
	c.Helper()
	return c.otherID(os.Getgid(), func(file string, id int) error { return os.Chown(file, -1, id) })
}

// otherUser returns a user other than the test's own, if there is one.
func (c *contract) otherUser() int64 {
	c.Helper()
	return c.otherID(os.Getuid(), func(file string, id int) error { return os.Chown(file, id, -1) })
}

// otherID returns a user or group other than the test's own, if the test may give files to it.
func (c *contract) otherID(own int, give func(file string, id int) error) int64 {
	c.Helper()
	const other = 4321
	file := filepath.Join(c.tempDir(), "file")
	require.NoError(c, os.WriteFile(file, nil, 0o600))
	if give(file, other) == nil {
		return other
	}
	return int64(own)
}
