package contract

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// A madeEntry is an entry that a plugin makes in a volume.
type madeEntry struct {
	name string // the path in the volume
	kind fs.FileMode
}

func (e madeEntry) isNotDir() bool { return e.kind != fs.ModeDir }

// A plantedVolume is a volume that is set up, in which a pod replaces entries.
type plantedVolume struct {
	*contract
	spec       *volume.Spec
	podMounter volume.Mounter
	dir        string // of the volume, without links
	store      string // the directory that the volume shows, without links; empty: none
	earlier    map[string]bool
	covered    []string // paths in the store below which there can be other entries of a user
}

// newPlanted sets a new volume up. The entries that Config.Backing has before are a user's.
func (c *contract) newPlanted() *plantedVolume {
	c.Helper()
	spec := c.spec()
	v := &plantedVolume{contract: c, spec: spec, podMounter: c.newMounter(spec), earlier: map[string]bool{}}
	if c.Backing != nil {
		v.setStore(c.Backing(spec))
	}
	args, hint := c.callersArgs(spec, volume.MounterArgs{})
	c.Cleanup(v.tearDownAtEnd)
	require.NoError(c, v.podMounter.SetUp(c.Context(), args), "SetUp%s", hint)
	v.dir = withoutLinks(v.podMounter.GetPath())
	return v
}

// setStore remembers a user's entries in the directory that the volume shows. A missing
// directory has none: SetUp may create it.
func (v *plantedVolume) setStore(dir string) {
	v.Helper()
	v.store = withoutLinks(dir)
	if _, err := os.Lstat(v.store); errors.Is(err, fs.ErrNotExist) {
		return
	}
	all, hidden := v.entriesBelow(v.store)
	for name := range all {
		v.earlier[name] = true
	}
	v.covered = hidden
}

// verifyStore fails the test if the volume does not show the directory Config.Backing: which entries are a user's
// is not known then. It returns false if it can create no file to find out.
func (v *plantedVolume) verifyStore() bool {
	v.Helper()
	if v.store == "" {
		return true
	}
	probe, err := os.CreateTemp(v.store, "volumetest-*")
	if isImpossible(err) && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	require.NoError(v, err, "Config.Backing of a volume that is set up")
	defer func() { _ = os.Remove(probe.Name()) }()
	defer func() { _ = probe.Close() }()
	// The random name shows it: a network file system has other device numbers than its server.
	if _, err := os.Lstat(filepath.Join(v.dir, filepath.Base(probe.Name()))); err != nil {
		v.Fatalf("Config.Backing returns %q, which is not the directory that the volume shows", v.store)
	}
	return true
}

// isUsers reports whether an entry of the volume can be a user's.
func (v *plantedVolume) isUsers(name string) bool {
	return v.earlier[name] || slices.ContainsFunc(v.covered, func(covered string) bool {
		return strings.HasPrefix(name+"/", covered+"/")
	})
}

// removeAtEnd removes an entry that the pod has put into the volume, at the end of the test, unless it has been
// replaced: a TearDown after a failure must not wait for a FIFO, and the storage is the user's.
func (v *plantedVolume) removeAtEnd(name string) {
	planted, err := os.Lstat(filepath.Join(v.dir, name))
	if err != nil { // the plugin has removed it
		return
	}
	path := filepath.Join(cmp.Or(v.store, v.dir), name)
	v.Cleanup(func() {
		if is, err := os.Lstat(path); err == nil && os.SameFile(is, planted) {
			_ = os.Remove(path)
		}
	})
}

// withoutLinks returns a path without symbolic links, or a missing path as it is.
func withoutLinks(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}

// tearDownAtEnd tears down a volume that a failed test has left, unless TearDown waits for something.
func (v *plantedVolume) tearDownAtEnd() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), callTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		if unmounter, err := v.plugin.NewUnmounter(v.spec.Name(), v.pod.UID); err == nil {
			_ = unmounter.TearDown(ctx)
		}
	}()
	select {
	case <-done:
	case <-time.After(2 * probeInterval):
	}
}

// end tears the volume down.
func (v *plantedVolume) end() {
	v.Helper()
	v.mustTearDown(v.spec)
	v.unstage(v.spec)
}

// entriesBelow returns the entries below a directory, see entriesIn.
func (v *plantedVolume) entriesBelow(dir string) (all map[string]fs.FileMode, hidden []string) {
	v.Helper()
	list, err := v.contract.mounter.List(v.Context())
	require.NoError(v, err)
	isMountPoint := func(name string) bool {
		at := tablepath.Of(filepath.Join(dir, name))
		return slices.ContainsFunc(list, func(info mount.Info) bool { return info.Mountpoint == at })
	}
	all, hidden, err = entriesIn(os.DirFS(dir), isMountPoint)
	require.NoError(v, err)
	return all, hidden
}

// entriesIn returns the entries below a directory, by their paths in it, with their types. A mount is no entry. Hidden
// are the paths below which there can be other entries: mount points, and directories that the caller may not read.
// An entry that is removed during the walk is no error.
func entriesIn(dir fs.FS, isMountPoint func(name string) bool) (all map[string]fs.FileMode, hidden []string, _ error) {
	all = map[string]fs.FileMode{}
	err := fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case name == ".":
			return err
		case errors.Is(err, fs.ErrPermission):
			hidden = append(hidden, name)
			return nil
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !isMountPoint(name):
			all[name] = entry.Type()
			return nil
		}
		hidden = append(hidden, name)
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return all, hidden, err
}

// madeEntries returns the entries of the volume in the order of their names, without a user's.
func (v *plantedVolume) madeEntries() (made []madeEntry) {
	v.Helper()
	all, _ := v.entriesBelow(v.dir)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !v.isUsers(name) {
			made = append(made, madeEntry{name, all[name]})
		}
	}
	return made
}

// mostBelow is the largest number of entries of a directory that get a namesake outside.
const mostBelow = 100

// below returns the entries below an entry that is a directory, or a link to one in the volume, by their paths in it;
// of many the first ones.
func (v *plantedVolume) below(e madeEntry) map[string]fs.FileMode {
	v.Helper()
	dir := withoutLinks(filepath.Join(v.dir, e.name))
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || !strings.HasPrefix(dir, v.dir+"/") {
		return nil
	}
	all, _ := v.entriesBelow(dir)
	for _, name := range slices.Sorted(maps.Keys(all))[min(mostBelow, len(all)):] {
		delete(all, name)
	}
	return all
}

// remove removes the made entries that are selected, as far as a pod can, but no directory with other entries or
// a mount in it.
func (v *plantedVolume) remove(made []madeEntry, isSelected func(madeEntry) bool) {
	for _, e := range slices.Backward(made) {
		if isSelected(e) {
			_ = os.Remove(filepath.Join(v.dir, e.name))
		}
	}
}

// passingEntries returns the entries that exist only while SetUp runs. The pod deletes made files and links before.
func (v *plantedVolume) passingEntries() []madeEntry {
	v.Helper()
	v.remove(v.madeEntries(), madeEntry.isNotDir) // a directory that is made anew could not be watched in time
	mounter, err := v.restarted().NewMounter(v.spec, v.pod)
	require.NoError(v, err)
	args, _ := v.callersArgs(v.spec, volume.MounterArgs{})
	passing := v.watchNames(v.dir, func() {
		if err := mounter.SetUp(v.Context(), args); err != nil {
			v.Logf("SetUp of a volume without its files: %v", err)
		}
	})
	var entries []madeEntry
	for _, name := range slices.Sorted(maps.Keys(passing)) {
		entries = append(entries, madeEntry{name, passing[name]})
	}
	return entries
}
