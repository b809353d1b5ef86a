package subpath

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"

	"github.com/volumekit/volumekit/mount"
)

// A Request asks for a part of a volume for a container.
type Request struct {
	// PodDir is the pod's directory, ROOT/pods/UID: an existing one, absolute,
	// reached without symbolic links, and not the pod's to write to.
	PodDir string
	// Volume is the name of the volume in the pod, Container that of the container,
	// and Index which of the container's mounts this is.
	Volume, Container string
	Index             int
	// VolumeDir is where the volume is: an absolute path without symbolic links, and
	// without a directory on the way that the pod can write to.
	VolumeDir string
	// Path is what to show, relative to the volume's directory, without "..": at most 256
	// components of 255 bytes. It may lead through symbolic links that stay in the volume.
	Path string
	// Create makes the directories that are missing, with the mode of the volume's
	// directory (its permissions and set-group-ID), whatever the umask.
	Create bool
	// ReadOnly makes it a read-only mount.
	ReadOnly bool
	// Submounts says what becomes of what is mounted in the volume. By the zero value
	// nothing is to be mounted on the way to what is shown, nor below it.
	// mount.HideSubmounts allows it below; mount.IncludeSubmounts shows it, and goes
	// through it on the way.
	Submounts mount.Submounts
}

// ErrEscapes: the path leads out of the volume.
var ErrEscapes = errors.New("the path leads out of the volume")

// directoryName is that of the directory in a pod's that holds all subpaths.
const directoryName = "volume-subpaths"

// Target returns where the bind mount is, which is what a container runtime needs.
func (r Request) Target() string { return path.Join(r.container(), strconv.Itoa(r.Index)) }

func (r Request) container() string { return path.Join(volumeDir(r.PodDir, r.Volume), r.Container) }

func volumeDir(podDir, volume string) string { return path.Join(podDir, directoryName, volume) }

// Bind shows what is at the path at the request's target, and returns that. It is
// idempotent: if the target shows just that, it is left. If it shows something else,
// what the path led to when the container was started before, that is unmounted first.
// Calls for different targets may run at the same time; those for one volume of a
// pod, Cleanup included, are for the caller to keep apart.
//
// On error nothing is mounted at the target by this call, unless the error wraps
// mount.ErrUncertain. It is
//
//   - an *InputError, before anything was changed,
//   - one that wraps [ErrEscapes], or mount.ErrSubmounts if something is mounted on the
//     way or below,
//   - an *fs.PathError with the path in the volume that could not be opened or
//     created; fs.ErrNotExist if it is missing,
//   - what the mounter said; errors.ErrUnsupported if it takes no SourceFile,
//   - one that wraps context.Cause(ctx), soon after ctx has ended. A file system that
//     does not answer then gets no further question, and no further directory.
//
// Directories that it has created in the volume stay, and those for the target do until
// Cleanup.
func Bind(ctx context.Context, m mount.Interface, req Request) (target string, err error) {
	if err := req.check(); err != nil {
		return "", err
	}
	source, dir, err := open(ctx, req)
	if err != nil {
		return "", &fs.PathError{Op: "subpath", Path: path.Join(req.VolumeDir, req.Path), Err: err}
	}
	defer func() { _ = source.Close() }()
	ask := mount.Request{Source: path.Join(req.VolumeDir, req.Path), SourceFile: source, Target: req.Target(), Submounts: req.Submounts}
	if req.ReadOnly {
		ask.Options = []string{"ro"}
	}
	if err := bind(ctx, m, req, ask, dir); err != nil {
		return "", err
	}
	return ask.Target, nil
}

// errOtherKind: a directory is to be where a file is, or the other way round.
var errOtherKind = errors.New("the target is of another kind")

// bind takes away what the target was before, if that is in the way.
func bind(ctx context.Context, m mount.Interface, req Request, ask mount.Request, dir bool) error {
	const tries = 3
	for try := 1; ; try++ {
		err := makeTarget(req, dir)
		if err == nil {
			err = m.Mount(ctx, ask)
		}
		if try == tries || !errors.Is(err, mount.ErrMounted) && !errors.Is(err, errOtherKind) {
			return err
		}
		if err := clearTarget(ctx, m, req); err != nil {
			return err
		}
	}
}

// Cleanup unmounts what Bind has mounted for a volume of a pod, and removes the
// directories and files on which it was. It knows what there is from what is on disk
// alone. It is idempotent: where there is nothing it returns nil. What cannot be
// unmounted or removed does not keep it from the rest; the errors are joined, and the
// next call goes on. It removes empty directories and empty files, which it has looked
// at, and nothing else; what is mounted and cannot be unmounted stays with what is in
// it.
//
// When ctx ends it returns, with an error that wraps context.Cause(ctx).
func Cleanup(ctx context.Context, m mount.Interface, podDir, volume string) error {
	if err := checkPlace(podDir, volume); err != nil {
		return err
	}
	return cleanup(ctx, m, path.Clean(podDir), volume)
}

// Volumes returns the names of the pod's volumes that Bind has mounted something of, as
// far as that is on disk, in no order. A pod without has none, which is no error.
func Volumes(podDir string) ([]string, error) {
	if err := checkPlace(podDir, "x"); err != nil {
		return nil, err
	}
	return volumes(path.Clean(podDir))
}
