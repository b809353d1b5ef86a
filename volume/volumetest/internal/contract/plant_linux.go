package contract

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/volume"
)

// mostPlanted is the largest number of entries that are replaced, each in a new volume.
const mostPlanted = 16

// A plant is an entry that a pod puts into a volume, also in the place of one that the plugin makes.
type plant struct {
	name     string
	replaces func(madeEntry) bool
	put      func(path string, o outside) error
	hardLink bool
}

func (c *contract) plantedLink() {
	c.plantOverEach(
		plant{name: "a symbolic link to a file", replaces: madeEntry.isNotDir, put: func(path string, o outside) error {
			return os.Symlink(o.file, path)
		}},
		plant{name: "a symbolic link to a missing file", replaces: madeEntry.isNotDir, put: func(path string, o outside) error {
			return os.Symlink(o.missing, path)
		}})
}

// plantedHardLink: a pod can make such a link if another volume of it shows a directory with both the file and this
// volume.
func (c *contract) plantedHardLink() {
	c.plantOverEach(plant{name: "a hard link", hardLink: true, replaces: madeEntry.isNotDir, put: func(path string, o outside) error {
		return os.Link(o.file, path)
	}})
}

func (c *contract) plantedFIFO() {
	c.plantOverEach(plant{name: "a FIFO", replaces: madeEntry.isNotDir, put: func(path string, _ outside) error {
		return syscall.Mkfifo(path, 0o666)
	}})
}

// plantedDirectoryLink: a directory is replaced by a link to another one. If that has entries of the same names, the
// test finds changed and deleted entries there. If it is empty, the test finds new entries.
func (c *contract) plantedDirectoryLink() {
	each := func(madeEntry) bool { return true }
	c.plantOverEach(
		plant{name: "a symbolic link to a directory", replaces: each, put: func(path string, o outside) error {
			return os.Symlink(o.dir, path)
		}},
		plant{name: "a symbolic link to another directory", replaces: each, put: func(path string, o outside) error {
			return os.Symlink(o.other, path)
		}})
}

// A sequence are the calls for a volume after a pod has put an entry there.
type sequence struct {
	restart bool
	args    volume.MounterArgs
	// alone: the pod has also deleted the other entries that the plugin has made, except the directories above:
	// one of them can be the mark of a volume that is complete.
	alone bool
	// passing: the entry takes a name that exists only while SetUp runs, such as that of a file which is renamed.
	passing bool
	calls   []func(*plantedCalls)
}

func (c *contract) sequences() []sequence {
	setUp, tearDown := (*plantedCalls).setUp, (*plantedCalls).tearDown
	measure, construct := (*plantedCalls).measure, (*plantedCalls).construct
	all := []sequence{
		{args: volume.MounterArgs{IsRemount: true}, calls: []func(*plantedCalls){measure, setUp, tearDown}},
		{restart: true, calls: []func(*plantedCalls){construct, setUp, tearDown}},
		{restart: true, alone: true, calls: []func(*plantedCalls){setUp, tearDown}},
		{restart: true, alone: true, passing: true, calls: []func(*plantedCalls){setUp, tearDown}},
	}
	last := sequence{restart: true, alone: true, calls: []func(*plantedCalls){tearDown}}
	if !c.Ephemeral { // the entry is there when the volume is set up again
		last.calls = append(last.calls, setUp, tearDown)
	}
	return append(all, last)
}

// plantOverEach runs each sequence with each plant in the place of each entry that the plugin makes. Each run has
// a new volume, as SetUp may mend the volume.
func (c *contract) plantOverEach(plants ...plant) {
	c.Helper()
	fake := c.fake() != nil
	switch {
	case fake && !c.Plain:
		c.Skip("the kernel is a fake: a pod sees nothing of the volume")
	case c.Ephemeral:
		if !c.verifyEphemeral() {
			c.Skip("a pod can put no file into a volume")
		}
	case c.Backing == nil:
		c.Skip("the volume's files outlive TearDown, and Config.Backing does not show which are a user's")
	}
	planted := false
	for _, p := range plants {
		for _, seq := range c.sequences() {
			for i, n := 0, 1; i < n; i++ {
				var over bool
				over, n = c.plantOver(i, p, seq)
				planted = planted || over
			}
		}
	}
	if !planted {
		c.Skip("a pod can put no such entry into a volume:", plants[0].name)
	}
}

// verifyEphemeral fails the test if a file in the volume outlives TearDown: other such files could be a user's. It
// returns false if it can create no file to find out.
func (c *contract) verifyEphemeral() bool {
	c.Helper()
	v := c.newPlanted()
	stray, err := os.CreateTemp(v.dir, "volumetest-*")
	if isImpossible(err) {
		v.end()
		return false
	}
	require.NoError(c, err)
	require.NoError(c, stray.Close())
	require.NoError(c, c.newUnmounter(v.spec).TearDown(c.Context()), "a pod has left a file"+hintPersistent)
	args, hint := c.callersArgs(v.spec, volume.MounterArgs{})
	require.NoError(c, v.podMounter.SetUp(c.Context(), args), "SetUp%s", hint)
	if err := os.Remove(stray.Name()); err == nil {
		c.Fatal("a file has outlived TearDown" + hintPersistent)
	}
	v.end()
	return true
}

// plantOver runs a sequence with a plant in the place of the entry i of a new volume. It reports whether a pod can
// put the plant there, and returns the number of entries.
func (c *contract) plantOver(i int, p plant, seq sequence) (planted bool, entries int) {
	c.Helper()
	v := c.newPlanted()
	if !v.verifyStore() {
		v.end()
		return false, 0
	}
	var passing []madeEntry
	if seq.passing {
		passing = v.passingEntries()
	}
	made := v.madeEntries()
	replaced := slices.Clone(made)
	if seq.passing {
		replaced = passing
	}
	replaced = slices.DeleteFunc(replaced, func(e madeEntry) bool { return !p.replaces(e) })
	replaced = replaced[:min(len(replaced), mostPlanted)]
	replaced = append(replaced, madeEntry{name: "volumetest-pod"}) // which no plugin makes
	if i < len(replaced) {
		planted = c.callOver(v, made, replaced[i], p, seq)
	}
	v.end()
	return planted, len(replaced)
}

// callersArgs adds the arguments that the manager passes to each SetUp of a volume. The hint ends the message if SetUp
// fails because of them.
func (c *contract) callersArgs(spec *volume.Spec, args volume.MounterArgs) (_ volume.MounterArgs, hint string) {
	c.Helper()
	if d, ok := c.device(spec); ok {
		args.DeviceMountPath = d.path
	}
	if c.Arguments.FsGroup == Honoured {
		group := c.otherGroup()
		args.FsGroup = &group
		hint += argument{name: "FsGroup", handling: Honoured}.hint()
	}
	if c.Arguments.FsUser == Honoured {
		user := c.otherUser()
		args.FsUser = &user
		hint += argument{name: "FsUser", handling: Honoured}.hint()
	}
	return args, hint
}

// callOver puts a plant in the place of an entry, makes the calls of a sequence, and verifies that each returns, and
// changes nothing outside of the volume. It returns false if a pod cannot put the plant there.
func (c *contract) callOver(v *plantedVolume, made []madeEntry, e madeEntry, p plant, seq sequence) bool {
	c.Helper()
	o := c.newOutside(v.below(e))
	if seq.alone {
		v.remove(made, func(other madeEntry) bool { return !strings.HasPrefix(e.name+"/", other.name+"/") })
	}
	path := filepath.Join(v.dir, e.name)
	if err := v.put(path, made, e, p, o); isImpossible(err) {
		return false
	} else {
		require.NoError(c, err, "the pod cannot put %s at %q", p.name, e.name)
	}
	v.removeAtEnd(e.name)
	o.remember(p.hardLink)
	calls := &plantedCalls{
		contract: c, spec: v.spec, current: c.plugin, args: seq.args, outside: o,
		path: path, after: fmt.Sprintf("after the pod has put %s at %q", p.name, e.name),
	}
	if seq.restart {
		calls.restart()
	}
	calls.open()
	for _, call := range seq.calls {
		call(calls)
	}
	return true
}

// put replaces an entry as the pod does.
func (v *plantedVolume) put(path string, made []madeEntry, e madeEntry, p plant, o outside) (err error) {
	// A volume can be a bind mount, and link(2) refuses paths in two mounts, also of one file system.
	target := path
	if behind := filepath.Join(v.store, e.name); p.hardLink && v.store != "" {
		if _, err := os.Lstat(filepath.Dir(behind)); err == nil {
			target = behind
		}
	}
	for range 10 { // the plugin may write at this moment
		v.remove(made, func(other madeEntry) bool { return strings.HasPrefix(other.name+"/", e.name+"/") })
		if err = p.put(target, o); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

// isImpossible reports whether an error says that a pod can put no such entry into the volume.
func isImpossible(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{
		syscall.EROFS, syscall.EPERM, syscall.EACCES, // the volume is read-only
		syscall.EXDEV,                   // a hard link to another file system
		syscall.EEXIST,                  // a mount point, or a directory with a user's files
		syscall.ENOENT, syscall.ENOTDIR, // the plugin has removed the directory
		syscall.ENOSPC, syscall.EDQUOT, // the volume is full
		syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EINVAL, // the file system has no such entries
	}, func(errno syscall.Errno) bool { return errors.Is(err, errno) })
}
