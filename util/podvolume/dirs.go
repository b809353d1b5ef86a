package podvolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Dirs implements the promises of [volume.Mounter] and [volume.Unmounter] for a plugin whose
// volume in a pod is a directory of this node that is removed with the pod: a plain directory,
// or one with a tmpfs of its own mounted on it.
//
// A note marks a volume that is set up. SetUp writes the note last, and TearDown removes it
// before it removes content. The note is an extended attribute of the directory that holds the
// volume's, or else a file in the plugin's directory for the pod ([volume.VolumeHost],
// PodPluginDir). After an interruption at any place the same call continues. No call waits for
// a disk: a loss of power may lose the note.
//
// One operation works on a path at a time. Paths must be strictly below the host's root; others
// are refused with a [*field.Error]. Methods are safe for concurrent use, and return soon after
// ctx ends, as those of [Mounts] do.
//
// A zero Dirs, or one without a host, a mounter or the name of a plugin, refuses every call with
// a [*field.Error].
type Dirs struct {
	mounts *Mounts
	finds  keylock.Map // by path: a file system that does not answer costs one stuck call
	plugin string      // its name
	walker *fsusage.Walker
	files  bool // notes are files alone
}

// NewDirs returns the directories of a plugin on a host. It executes no system call.
func NewDirs(host volume.VolumeHost, mounter mount.Interface, pluginName string, options ...DirsOption) *Dirs {
	p := &Dirs{mounts: NewMounts(host, mounter), plugin: pluginName, walker: NewWalker()}
	for _, option := range options {
		option(p)
	}
	return p
}

// A DirsOption configures [NewDirs].
type DirsOption func(*Dirs)

// WithNoteFiles keeps the notes in files, also where an extended attribute is possible. A
// kubelet that takes a volume of kubernetes.io/empty-dir over accepts such a note.
func WithNoteFiles() DirsOption { return func(p *Dirs) { p.files = true } }

// A Dir describes a volume for SetUp.
type Dir struct {
	// Mode is the mode of the directory, without regard to the umask: permissions, and set-group-ID
	// and the like as fs.ModeSetgid or as the kernel has them, such as 0o2775. Other bits
	// are a [*field.Error]. The zero value is 0.
	Mode fs.FileMode
	// Group owns the directory. Nil: the group of the process that makes it.
	Group *int64
	// Mount is mounted on the directory; SetUp sets its target. Nil: no mount.
	Mount *mount.Request
	// Record holds the plugin's own data about the volume for the time after a restart:
	// JSON, without secrets. SetUp refuses a volume that is set up with another record. Nil:
	// none.
	Record json.RawMessage
	// Fill, if it is not nil, writes the content of the directory, at each call of SetUp, also
	// for a volume that is set up already.
	//
	// The pod can write into dir after the first SetUp. It can replace each file and directory in dir by a
	// symbolic link, a hard link or a FIFO: os.WriteFile(filepath.Join(dir, name), ...) then overwrites a file
	// of the node that the link leads to, often as root, or waits for the FIFO forever. Write by util/atomicdir,
	// which replaces such entries. Other code must open dir, open each directory on the way to an entry below
	// the descriptor with O_NOFOLLOW (or the whole way by openat2(2) with RESOLVE_NO_SYMLINKS), and write only
	// into a file that it has just created with O_EXCL. It must open a file to read with O_NOFOLLOW and O_NONBLOCK,
	// refuse all but regular files, and change modes and owners by the descriptor, if the file has no other link.
	Fill func(ctx context.Context, dir string) error
}

// settable are the bits of a mode that a directory can be given, those of chmod(2) too.
const settable = 0o7777 | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// SetUp sets the volume up at dir, with the promises of [volume.Mounter]. An existing directory
// keeps its content, which is of an interrupted set-up or tear-down. SetUp sets owner and mode
// only of a volume that is not set up: later the pod may change them.
//
// A volume that the kubelet has noted to be ready is set up: SetUp fills it, adds nosuid and
// nodev to its mount, and notes it. Owner, mode, size and mount stay.
//
// If another file system is mounted at dir, or the volume is set up with another Dir, the error
// wraps [volume.ErrAlreadyMounted].
func (p *Dirs) SetUp(ctx context.Context, dir string, want Dir) error {
	if err := volume.ValidateID(field.NewPath("fsGroup"), want.Group); err != nil {
		return err
	}
	if want.Mode&^settable != 0 {
		return field.Invalid(field.NewPath("mode"), fmt.Sprintf("%#o", uint32(want.Mode)), "must be only permissions, set-user-ID, set-group-ID and sticky")
	}
	return p.exclusively(ctx, dir, func(ctx context.Context, v *podDir) error { return v.setUp(ctx, want) })
}

// TearDown unmounts the file system at dir, removes the content of the directory, and the
// directory. It never descends into a mount inside the directory: the mount stays with the
// directories that lead to it, and the error wraps a [*scrub.UnremovableError] that names it.
//
// It empties only a volume of this plugin: a directory in the place that the host has for the
// volume (PodVolumeDir), or one with a note of SetUp. It removes any other directory only if the
// directory is empty, and returns an error otherwise.
func (p *Dirs) TearDown(ctx context.Context, dir string) error {
	return p.exclusively(ctx, dir, func(ctx context.Context, v *podDir) error { return v.tearDown(ctx) })
}

// Find returns the record of the volume that is set up at dir. The error wraps
// [volume.ErrNotMounted] if dir does not exist, or exists unmounted with the note of a mount, and
// [volume.ErrUncertain] if dir exists with another mount on it or without a sound note.
func (p *Dirs) Find(ctx context.Context, dir string) (_ json.RawMessage, err error) {
	defer brief.Shorten(&err)
	v, err := p.podDirAt(dir)
	if err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	is, err := v.readStateInTime(ctx)
	if err != nil {
		return nil, err
	}
	return is.note.Record, is.check(v.dir)
}

// Below returns the shortest spelling of a path that is strictly below the host's root or one
// of its target directories. Its error is a [*field.Error] at the field.
func (p *Dirs) Below(at *field.Path, written string) (string, error) {
	if p == nil {
		return "", errNoHost
	}
	return p.mounts.Below(at, written)
}

// A podDir is one volume, with the lock of its operation.
type podDir struct {
	*Dirs
	dir   string
	notes notes
	// parent is a descriptor of the directory that holds dir, from makeDir on; -1: none.
	parent int
}

func (p *Dirs) podDirAt(dir string) (*podDir, error) {
	dir, err := p.Below(field.NewPath("dir"), dir)
	if err != nil {
		return nil, err
	}
	notes, err := p.notesOf(dir)
	return &podDir{Dirs: p, dir: dir, notes: notes, parent: -1}, err
}

// exclusively runs work as the only one for dir, and holds the lock until work has
// ended, also work that outlives ctx.
func (p *Dirs) exclusively(ctx context.Context, dir string, work func(context.Context, *podDir) error) error {
	v, err := p.podDirAt(dir)
	if err != nil {
		return err
	}
	return runExclusively(ctx, &p.mounts.locks, v.dir, volume.ErrUncertain, func(ctx context.Context) error {
		return work(ctx, v)
	})
}

// A podDirState is the state of a volume on disk.
type podDirState struct {
	exists, mounted bool
	isDir           bool // and nothing is mounted on it
	known           bool // to be a volume, whether it is up or not
	noted           bool // and the note is sound
	note            note
	noteErr         error // why it is not
	byKubelet       bool  // the kubelet has noted that the volume is ready, and nothing else is noted
}

// readStateInTime is readState for callers without the lock of the volume.
func (v *podDir) readStateInTime(ctx context.Context) (is podDirState, err error) {
	is, _, err = keylock.Await(ctx, v.finds.Key(v.dir), ctxend.Kernel, func() (podDirState, error) { return v.readState(ctx) }, nil)
	if err != nil && volume.KindOf(err) == volume.Final {
		err = util.Transient(err)
	}
	return is, err
}

// readState reads the directory with its mount and its note, and the note of a kubelet.
func (v *podDir) readState(ctx context.Context) (podDirState, error) {
	is, err := v.readPlace(ctx)
	if err != nil {
		return is, err
	}
	if is.exists && !is.mounted {
		info, err := os.Lstat(v.dir)
		is.isDir = err == nil && info.IsDir()
	}
	is.note, is.noteErr = v.notes.read()
	is.noted = is.noteErr == nil
	if is.noteErr != nil && !errors.Is(is.noteErr, fs.ErrNotExist) && !errors.Is(is.noteErr, errUnsound) {
		return is, util.Transient(is.noteErr)
	}
	if is.exists && !is.noted && v.notes.kubelet != "" {
		if is.byKubelet, err = hasKubeletNote(v.notes.kubelet); err != nil {
			return is, util.Transient(err)
		}
	}
	return is, nil
}

// readPlace returns whether the directory exists, is mounted and is known: all that a
// removal needs.
func (v *podDir) readPlace(ctx context.Context) (is podDirState, err error) {
	is.mounted, err = v.mounts.mounter.IsMountPoint(ctx, v.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return is, util.Transient(err)
	}
	is.exists = err == nil
	if is.known, err = v.notes.isVolume(); err != nil {
		return is, util.Transient(err)
	}
	return is, nil
}

// isUp reports whether the volume is set up.
func (is podDirState) isUp() bool {
	return is.noted && (is.mounted && is.note.Mounted || is.isDir && !is.note.Mounted)
}

// check returns nil if the volume is up. The error is uncertain if the directory exists with
// another mount on it, or without a note; otherwise it wraps volume.ErrNotMounted.
func (is podDirState) check(dir string) error {
	switch {
	case is.isUp():
		return nil
	case is.exists && (is.mounted || !is.noted):
		err := is.noteErr
		if err == nil {
			err = errOnTop
		}
		return volume.AsUncertain(fmt.Errorf("%s: %w", dir, err))
	}
	return fmt.Errorf("%s: %w", dir, volume.ErrNotMounted)
}

var errOnTop = errors.New("another file system is mounted on the directory")

// setUp checks a volume that is up, takes over one of a kubelet, and sets up any other one. It undoes
// a failed set-up, unless the outcome is uncertain; if the undo fails, the error is uncertain.
func (v *podDir) setUp(ctx context.Context, want Dir) error {
	is, err := v.readState(ctx)
	if err != nil {
		return err
	}
	if is.mounted && want.Mount == nil {
		return fmt.Errorf("%s: %w: %w", v.dir, volume.ErrAlreadyMounted, errOnTop)
	}
	if is.isUp() {
		return v.setUpAgain(ctx, is.note, want)
	}
	if is.isKubelets(want) {
		return v.takeOver(ctx, want)
	}
	if err := v.discardNote(ctx, is); err != nil {
		return err
	}
	defer v.closeParent()
	made, err := v.make(ctx, is, want)
	if err == nil {
		err = v.finish(ctx, want)
	}
	if err == nil || errors.Is(err, volume.ErrUncertain) {
		return err
	}
	if undo := v.undo(ctx, is, made); undo != nil {
		return volume.AsUncertain(fmt.Errorf("%w (cleaning up: %w)", err, undo))
	}
	return err
}

// discardNote removes the note of a volume that is no longer up: its mount ended with a
// reboot, or another process removed its directory. With an old note an interrupted set-up
// would count as complete.
func (v *podDir) discardNote(ctx context.Context, is podDirState) error {
	if errors.Is(is.noteErr, fs.ErrNotExist) {
		return nil
	}
	if ctx.Err() != nil {
		return util.Transient(ctxend.Error(ctx))
	}
	if err := v.notes.removeNote(); err != nil {
		return util.Transient(err)
	}
	return nil
}

// setUpAgain verifies, mounts again if needed, and fills a volume that is set up.
func (v *podDir) setUpAgain(ctx context.Context, is note, want Dir) error {
	if err := is.differs(want); err != nil {
		return fmt.Errorf("%s: %w: %w", v.dir, volume.ErrAlreadyMounted, err)
	}
	if err := v.notes.addFile(is); err != nil {
		return util.Transient(err)
	}
	if want.Mount != nil {
		if err := v.mounts.Mount(ctx, v.dir, *want.Mount); err != nil {
			return err
		}
	}
	return v.fill(ctx, want)
}

// make creates the directory and mounts on it. It returns the first directory that it
// created, also together with an error.
func (v *podDir) make(ctx context.Context, is podDirState, want Dir) (made string, err error) {
	if ctx.Err() != nil {
		return "", util.Transient(ctxend.Error(ctx))
	}
	if !is.exists {
		if err := v.notes.recordOwnership(); err != nil {
			return "", util.Transient(err)
		}
	}
	made, err = v.makeDir()
	if err != nil {
		return made, util.Transient(err)
	}
	if want.Mount == nil {
		return made, nil
	}
	return made, v.mounts.mountOn(ctx, v.dir, *want.Mount)
}

// finish sets the owner, mode and content of the directory, and notes that it is ready.
func (v *podDir) finish(ctx context.Context, want Dir) error {
	if err := setOwnerAndMode(v.dir, want); err != nil {
		return util.Transient(fmt.Errorf("owner and mode of %s: %w", v.dir, err))
	}
	if err := v.fill(ctx, want); err != nil {
		return err
	}
	err := context.Cause(ctx)
	if err == nil {
		err = v.notes.mark(noteOf(want), v.parent)
	}
	if err != nil {
		return util.Transient(err)
	}
	return nil
}

func (v *podDir) fill(ctx context.Context, want Dir) error {
	if want.Fill == nil {
		return nil
	}
	return want.Fill(ctx, v.dir)
}

// undoFor limits the time in which a call that has ended reverts its changes.
const undoFor = time.Second

// undo reverts a failed SetUp; a directory that existed before stays.
func (v *podDir) undo(ctx context.Context, was podDirState, made string) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), undoFor)
		defer cancel()
	}
	if !was.mounted {
		if err := v.mounts.Unmount(ctx, v.dir, util.KeepDirectory()); err != nil {
			return err
		}
	}
	switch {
	case was.exists && was.noted:
		return nil
	case was.exists && was.known:
		return v.notes.removeNote()
	case was.exists:
		return v.notes.removeNoteAndDirs()
	}
	if err := v.remove(ctx); err != nil {
		return err
	}
	return safepath.RemoveMade(context.Background(), made, v.dir)
}

func (v *podDir) tearDown(ctx context.Context) error {
	is, err := v.readPlace(ctx)
	if err != nil {
		return err
	}
	if !is.known {
		return v.mounts.Unmount(ctx, v.dir)
	}
	if is.mounted {
		if err := v.mounts.Unmount(ctx, v.dir, util.KeepDirectory()); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return volume.AsUncertain(ctxend.Error(ctx))
	}
	switch err := v.remove(ctx); {
	case err == nil:
		return nil
	case is.mounted, errors.Is(err, errBegun):
		return volume.AsUncertain(err)
	default:
		return util.Transient(err)
	}
}

// errBegun is wrapped by errors after which something is gone.
var errBegun = errors.New("removed in part")

// remove removes the notes, then the directory with all that is in it, and then the
// directories of the notes.
func (v *podDir) remove(ctx context.Context) error {
	p, err := v.pin()
	if errors.Is(err, fs.ErrNotExist) {
		return v.notes.removeNoteAndDirs()
	}
	if err != nil {
		return err
	}
	defer p.close()
	if err := v.notes.removeNoteBy(func() error { return p.removeMark(v.dir) }); err != nil {
		return err
	}
	err = p.rmdir()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // something is in it
		err = v.empty(ctx, p)
	} else {
		err = nil
	}
	if err == nil {
		err = v.notes.removeDirs()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errBegun, err)
	}
	return nil
}

// empty removes a pinned directory with all that is in it.
func (v *podDir) empty(ctx context.Context, p *pinned) error {
	root, err := scrub.Open(context.Background(), v.dir)
	if err != nil {
		return err
	}
	if root.Identity().Mount != p.mount {
		return errors.Join(fmt.Errorf("%s: %w", v.dir, errOnTop), root.Close())
	}
	_, err = root.Empty(ctx, scrub.Options{})
	if ctx.Err() != nil { // a worker may still be in a system call
		_ = root.Check(context.Background(), scrub.Options{})
	}
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}
	return removeEmptied(v.dir)
}

// removeEmptied removes a directory that a scrub has emptied: lost+found stays then.
func removeEmptied(dir string) error {
	err := safepath.Rmdir(context.Background(), path.Join(dir, "lost+found"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := safepath.Rmdir(context.Background(), dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove mount point: %w", err)
	}
	return nil
}
