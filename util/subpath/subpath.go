package subpath

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
)

// A Request describes a bind mount of a part of a volume for a container.
type Request struct {
	// PodDir is the pod's directory, ROOT/pods/UID: an existing one, absolute,
	// reached without symbolic links, and not the pod's to write to.
	PodDir string
	// Volume is the name of the volume in the pod, Container the name of the container,
	// and Index the index of the mount among the container's mounts.
	Volume, Container string
	Index             int
	// VolumeDir is the volume's directory: an absolute path without symbolic links, in
	// which no parent is writable by the pod.
	VolumeDir string
	// Path is the part to bind, relative to the volume's directory, without "..": at most
	// 256 components of 255 bytes. It may contain symbolic links that stay in the volume.
	Path string
	// Create creates missing directories, with the mode of the volume's directory (its
	// permissions, set-group-ID and sticky bit), for any umask.
	Create bool
	// ReadOnly makes it a read-only mount.
	ReadOnly bool
	// Submounts selects the handling of mounts inside the volume. The zero value refuses
	// mounts on the way to the part and below it. mount.HideSubmounts allows them below;
	// mount.IncludeSubmounts includes them, and also allows them on the way.
	Submounts mount.Submounts
}

// ErrEscapes reports a path that leads out of the volume.
var ErrEscapes = errors.New("the path leads out of the volume")

// directoryName is the name of the directory in a pod's directory that has all subpaths.
const directoryName = "volume-subpaths"

// Target returns the path of the bind mount, for a container runtime.
func (r Request) Target() string { return path.Join(r.container(), strconv.Itoa(r.Index)) }

func (r Request) container() string { return path.Join(volumeDir(r.PodDir, r.Volume), r.Container) }

func volumeDir(podDir, volume string) string { return path.Join(podDir, directoryName, volume) }

// Bind mounts the part of the volume at the request's target, and returns the target. It
// is idempotent: a target that shows the part already is left as it is. If the target
// shows something else, such as the result of the path at an earlier start of the
// container, that is unmounted first. Calls for different volumes may run at the same
// time; the caller serializes calls for one volume of a pod, Cleanup included.
//
// On error this call leaves nothing mounted at the target, unless the error wraps
// mount.ErrUncertain. The error is
//
//   - an *InputError, before anything was changed,
//   - an error that wraps [ErrEscapes], or mount.ErrSubmounts for a mount on the way
//     or below,
//   - an *fs.PathError with the path in the volume that could not be opened or
//     created; fs.ErrNotExist if it is missing,
//   - the mounter's error; errors.ErrUnsupported if it does not support SourceFile,
//   - an error that wraps context.Cause(ctx), soon after ctx has ended. A file system that
//     does not answer then gets no further system call, and no further directory.
//
// Directories that Bind has created in the volume stay, and those for the target stay
// until Cleanup.
func Bind(ctx context.Context, m mount.Interface, req Request) (target string, err error) {
	if err := req.check(); err != nil {
		return "", err
	}
	source, isDir, err := open(ctx, req)
	if err != nil {
		return "", &fs.PathError{Op: "subpath", Path: path.Join(req.VolumeDir, req.Path), Err: err}
	}
	return inTime(ctx, req.PodDir, req.Volume, errUncertain, func() (string, error) { return bindSource(ctx, m, req, source, isDir) })
}

// bindSource binds the source at the target, and closes the source.
func bindSource(ctx context.Context, m mount.Interface, req Request, source *os.File, isDir bool) (target string, err error) {
	defer func() { _ = source.Close() }()
	request := mount.Request{Source: path.Join(req.VolumeDir, req.Path), SourceFile: source, Target: req.Target(), Submounts: req.Submounts}
	if req.ReadOnly {
		request.Options = []string{"ro"}
	}
	if err := bind(ctx, m, req, request, isDir); err != nil {
		return "", err
	}
	return request.Target, nil
}

// errOtherKind: the target is a file and the part a directory, or the other way round.
var errOtherKind = errors.New("the target is of another kind")

// bind mounts the source at the target, and removes an earlier mount or file from it.
func bind(ctx context.Context, m mount.Interface, req Request, ask mount.Request, isDir bool) error {
	const tries = 3
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return ctxend.Error(ctx)
		}
		err := makeTarget(req, isDir)
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

// Cleanup unmounts the bind mounts of a volume of a pod, and removes the directories and
// files that they were mounted on. It finds them on disk alone. It is idempotent: it
// returns nil if there are none. A mount that cannot be unmounted, or an entry that cannot
// be removed, does not stop it; the errors are joined, and the next call continues.
// Cleanup removes only empty directories and files that it has found to be empty; a mount
// that cannot be unmounted keeps its content.
//
// When ctx ends Cleanup returns soon, with an error that wraps context.Cause(ctx). If the
// file system of the pod's directory does not answer, a system call may continue; calls
// for the same volume of the pod wait for its end.
//
// A bind mount that is in use stays, with an error that wraps mount.ErrBusy, unless its file
// or directory has been removed from the volume: then Cleanup detaches it as [Detach] does.
func Cleanup(ctx context.Context, m mount.Interface, podDir, volume string) error {
	return cleanUp(ctx, m, podDir, volume, detachment{})
}

// DetachOptions configure [Detach].
type DetachOptions struct {
	// Disks also allows detaching bind mounts of file systems on disks. The file system
	// stays alive, and the disk in use, until the last user closes its files, and no mount
	// table shows that. It is for callers that check whether the kernel still uses the
	// disk (open(2) with O_EXCL fails with EBUSY) before they release it.
	Disks bool
}

// Detach is [Cleanup] for a pod that has gone and has no running container: it also detaches
// (MNT_DETACH) a bind mount that is still in use, by a program of the node. The program
// keeps its open files, and no other program finds them.
//
// Without DetachOptions.Disks a bind mount in use stays, with an error that wraps
// mount.ErrBusy, unless its file system needs no disk of its own: it is the file system of
// the pod's directory, in memory, or of a server.
func Detach(ctx context.Context, m mount.Interface, podDir, volume string, o DetachOptions) error {
	return cleanUp(ctx, m, podDir, volume, detachment{o, true})
}

// A detachment says which mounts in use may be detached.
type detachment struct {
	DetachOptions
	gone bool // the pod has gone
}

func cleanUp(ctx context.Context, m mount.Interface, podDir, volume string, may detachment) error {
	if err := checkPlace(podDir, volume); err != nil {
		return err
	}
	_, err := inTime(ctx, podDir, volume, nil, func() (struct{}, error) {
		return struct{}{}, cleanup(ctx, cleaner{mounter: m, may: may}, path.Clean(podDir), volume)
	})
	return err
}

// A cleaner removes bind mounts.
type cleaner struct {
	mounter mount.Interface
	may     detachment
}

// Volumes returns the names of the pod's volumes that have bind mounts on disk, in no
// order. For a pod without bind mounts it returns no names and no error. If ctx ends
// first, the error wraps context.Cause(ctx).
func Volumes(ctx context.Context, podDir string) ([]string, error) {
	if err := checkPlace(podDir, "x"); err != nil {
		return nil, err
	}
	return inTime(ctx, podDir, "", nil, func() ([]string, error) { return volumes(path.Clean(podDir)) })
}
