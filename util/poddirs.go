package util

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PodDirs does what [volume.Mounter] and [volume.Unmounter] promise for a plugin
// whose volume in a pod is a directory of this node, and goes with the pod: a plain
// one, or one on which a file system is mounted that nobody else has (tmpfs).
//
// A volume is up once it is noted to be, in the directory that the plugin has for the
// pod ([volume.VolumeHost], PodPluginDir), which is done last; and not up any more
// before anything in it is removed. Whatever was interrupted, at any place, the same
// call goes on with.
//
// One operation works on a path at a time. Paths must be strictly below the host's
// root; others are refused with a [*field.Error]. Methods are safe for concurrent use.
type PodDirs struct {
	mounts *PodMounts
	plugin string // its name
	walker *fsusage.Walker
}

// NewPodDirs returns the directories of a plugin on a host. It does nothing yet.
func NewPodDirs(host volume.VolumeHost, mounter mount.Interface, pluginName string) *PodDirs {
	return &PodDirs{NewPodMounts(host, mounter), pluginName, NewWalker()}
}

// A PodDir is what a volume is to be.
type PodDir struct {
	// Mode is the mode of the directory, whatever the umask. The zero value is 0.
	Mode fs.FileMode
	// Group owns the directory. Nil: that of whoever makes it does.
	Group *int64
	// Mount is mounted on the directory. Its target is set here. Nil: nothing is.
	Mount *mount.Request
	// Record is what the plugin will want to know of the volume after a restart:
	// JSON, without secrets. A volume that is up with another one is up in another
	// way. Nil: nothing.
	Record json.RawMessage
	// Fill, if it is not nil, puts into the directory what belongs there, each time
	// that the volume is set up, also while it is up.
	Fill func(ctx context.Context, dir string) error
}

// SetUp brings the volume up at dir, as [volume.Mounter] has it. A directory that is
// there already stays with what is in it: somebody has not come to the end, with
// setting it up or with tearing it down. Owner and mode are set when the volume is not
// up, and not looked at while it is: they are the pod's to change.
//
// If something else is mounted there, or the volume is up as something else, the error
// wraps [volume.ErrAlreadyMounted].
func (p *PodDirs) SetUp(ctx context.Context, dir string, want PodDir) error {
	if err := volume.ValidateID(field.NewPath("fsGroup"), want.Group); err != nil {
		return err
	}
	return p.exclusively(ctx, dir, func(v *podDir) error { return v.setUp(want) })
}

// TearDown takes down what is mounted at dir, removes what is in the directory, and
// the directory. It never descends into something that is mounted in it: that stays, as
// do the directories that lead there, and the error, which wraps a
// [*scrub.UnremovableError], names it.
//
// It empties what is known to be a volume of this plugin: by its place, the one that the
// host has for it (PodVolumeDir); or because SetUp has been there. Any other directory
// it removes only if it is empty, and it is an error if it is not.
func (p *PodDirs) TearDown(ctx context.Context, dir string) error {
	return p.exclusively(ctx, dir, (*podDir).tearDown)
}

// Find returns the record of the volume that is up at dir. If nothing is there the
// error wraps [volume.ErrNotMounted]; if something is, and nothing sound is noted about
// it, [volume.ErrUncertain].
func (p *PodDirs) Find(ctx context.Context, dir string) (json.RawMessage, error) {
	v, err := p.at(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	is, err := v.look()
	if err != nil {
		return nil, err
	}
	return is.note.Record, is.check(v.dir)
}

// A podDir is one volume, and who works on it.
type podDir struct {
	*PodDirs
	ctx     context.Context
	dir     string
	notes   notes
	lingers func() // nil, or waits for what has been left at work
}

func (p *PodDirs) at(ctx context.Context, dir string) (*podDir, error) {
	dir, err := p.mounts.Below(field.NewPath("dir"), dir)
	if err != nil {
		return nil, err
	}
	notes, err := p.notesOf(dir)
	return &podDir{PodDirs: p, ctx: ctx, dir: dir, notes: notes}, err
}

// exclusively runs work as the only one for dir, and keeps others away from it until
// what it has left at work has ended, too.
func (p *PodDirs) exclusively(ctx context.Context, dir string, work func(*podDir) error) error {
	v, err := p.at(ctx, dir)
	if err != nil {
		return err
	}
	unlock, err := p.mounts.locks.Lock(ctx, v.dir)
	if err != nil {
		return Transient(fmt.Errorf("waiting for another operation on %s: %w", v.dir, err))
	}
	if err = work(v); v.lingers == nil {
		unlock()
		return err
	}
	go func() { v.lingers(); unlock() }()
	return err
}

// A podDirState is what there is of a volume.
type podDirState struct {
	exists, mounted bool
	isDir           bool // and nothing is mounted on it
	known           bool // to be a volume, whether it is up or not
	noted           bool // and the note is sound
	note            note
	noteErr         error // why it is not
}

func (v *podDir) look() (podDirState, error) {
	var is podDirState
	mounted, err := v.mounts.mounter.IsMountPoint(v.ctx, v.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return is, Transient(err)
	}
	is.exists, is.mounted = err == nil, mounted
	if is.exists && !is.mounted {
		info, err := os.Lstat(v.dir)
		is.isDir = err == nil && info.IsDir()
	}
	if is.known, err = v.notes.known(); err != nil {
		return is, Transient(err)
	}
	is.note, is.noteErr = v.notes.read()
	is.noted = is.noteErr == nil
	if is.noteErr != nil && !errors.Is(is.noteErr, fs.ErrNotExist) && !errors.Is(is.noteErr, errUnsound) {
		return is, Transient(is.noteErr)
	}
	return is, nil
}

// up reports whether the volume is.
func (is podDirState) up() bool {
	return is.noted && (is.mounted && is.note.Mounted || is.isDir && !is.note.Mounted)
}

func (is podDirState) check(dir string) error {
	switch {
	case is.up():
		return nil
	case is.exists && (is.mounted || !is.noted):
		err := is.noteErr
		if err == nil {
			err = errOnTop
		}
		return fmt.Errorf("%w: %s: %w", volume.ErrUncertain, dir, err)
	}
	return fmt.Errorf("%w: %s", volume.ErrNotMounted, dir)
}

var errOnTop = errors.New("something is mounted on the directory")

func (v *podDir) setUp(want PodDir) error {
	is, err := v.look()
	if err != nil {
		return err
	}
	if is.mounted && want.Mount == nil {
		return fmt.Errorf("%w: %s: %w", volume.ErrAlreadyMounted, v.dir, errOnTop)
	}
	if is.up() {
		return v.setUpAgain(is.note, want)
	}
	made, err := v.make(is, want)
	if err == nil {
		err = v.finish(want)
	}
	if err == nil || errors.Is(err, volume.ErrUncertain) {
		return err
	}
	if undo := v.undo(is, made); undo != nil {
		return fmt.Errorf("%w: %w (cleaning up: %w)", volume.ErrUncertain, err, undo)
	}
	return err
}

// setUpAgain is for a volume that is up.
func (v *podDir) setUpAgain(is note, want PodDir) error {
	if err := is.differs(want); err != nil {
		return fmt.Errorf("%w: %s: %w", volume.ErrAlreadyMounted, v.dir, err)
	}
	if want.Mount != nil {
		if err := v.mounts.Mount(v.ctx, v.dir, *want.Mount); err != nil {
			return err
		}
	}
	return v.fill(want)
}

// make makes the directory and mounts, and returns what it made of directories.
func (v *podDir) make(is podDirState, want PodDir) (made string, err error) {
	if !is.exists {
		if err := v.notes.claim(); err != nil {
			return "", Transient(err)
		}
	}
	made, err = safepath.MkdirAll(v.mounts.host.Root(), v.dir, 0o750)
	if err != nil {
		return made, Transient(err)
	}
	if want.Mount == nil {
		return made, nil
	}
	return made, v.mounts.Mount(v.ctx, v.dir, *want.Mount)
}

// finish makes of the directory what is wanted, and notes it.
func (v *podDir) finish(want PodDir) error {
	if err := own(v.dir, want); err != nil {
		return Transient(fmt.Errorf("owner and mode of %s: %w", v.dir, err))
	}
	if err := v.fill(want); err != nil {
		return err
	}
	err := context.Cause(v.ctx)
	if err == nil {
		err = v.notes.write(noteOf(want))
	}
	if err != nil {
		return Transient(err)
	}
	return nil
}

func (v *podDir) fill(want PodDir) error {
	if want.Fill == nil {
		return nil
	}
	return want.Fill(v.ctx, v.dir)
}

// undoFor is how long a call that has ended takes back what it did.
const undoFor = time.Second

// undo takes back what a SetUp made that has failed: of a directory that was there
// before, nothing.
func (v *podDir) undo(was podDirState, made string) error {
	if v.ctx.Err() != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(v.ctx), undoFor)
		defer cancel()
		v.ctx = ctx
	}
	if !was.mounted {
		if err := v.mounts.Unmount(v.ctx, v.dir, KeepDirectory()); err != nil {
			return err
		}
	}
	switch {
	case was.exists && was.noted:
		return nil
	case was.exists && was.known:
		return v.notes.unready()
	case was.exists:
		return v.notes.forget()
	}
	if err := v.remove(); err != nil {
		return err
	}
	return safepath.RemoveMade(made, v.dir)
}

func (v *podDir) tearDown() error {
	is, err := v.look()
	if err != nil {
		return err
	}
	if !is.known {
		return v.mounts.Unmount(v.ctx, v.dir)
	}
	if err := v.mounts.Unmount(v.ctx, v.dir, KeepDirectory()); err != nil {
		return err
	}
	switch err := v.remove(); {
	case err == nil:
		return nil
	case is.mounted, errors.Is(err, errBegun):
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	default:
		return Transient(err)
	}
}

// errBegun is wrapped by errors after which something is gone.
var errBegun = errors.New("removed in part")

// remove removes the directory with all that is in it, and first what is noted of it.
func (v *podDir) remove() error {
	root, err := v.pin()
	if errors.Is(err, fs.ErrNotExist) {
		return v.notes.forget()
	}
	if err != nil {
		return err
	}
	if err := v.notes.unready(); err != nil {
		return errors.Join(err, root.Close())
	}
	if err := v.removePinned(root); err != nil {
		return fmt.Errorf("%w: %w", errBegun, err)
	}
	return nil
}

func (v *podDir) removePinned(root *scrub.Root) error {
	err := v.empty(root)
	if err == nil {
		err = removeEmptied(v.dir)
	}
	if err == nil {
		err = v.notes.forget()
	}
	return err
}

// pin opens the directory, which must be no mount point: what is mounted upon it from
// now on is not what is open.
func (v *podDir) pin() (*scrub.Root, error) {
	root, err := scrub.Open(v.dir)
	if err != nil {
		return nil, err
	}
	above, err := scrub.Open(path.Dir(v.dir))
	if err == nil && above.Identity().Mount != root.Identity().Mount {
		err = fmt.Errorf("%s: %w", v.dir, errOnTop)
	}
	if above != nil {
		err = errors.Join(err, above.Close())
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// empty removes what is in the directory, and closes it.
func (v *podDir) empty(root *scrub.Root) error {
	_, err := root.Empty(v.ctx, scrub.Options{})
	if v.ctx.Err() == nil {
		return errors.Join(err, root.Close())
	}
	v.lingers = func() { // it may still be in a system call
		_ = root.Check(context.Background(), scrub.Options{})
		_ = root.Close()
	}
	return err
}

// removeEmptied removes a directory that a scrub has emptied: lost+found stays then.
func removeEmptied(dir string) error {
	err := safepath.Rmdir(path.Join(dir, "lost+found"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return removeMountPoint(dir)
}
