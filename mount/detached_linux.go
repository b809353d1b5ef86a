package mount

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// buildDetached makes the mount where no path leads, open_tree(2) or fsmount(2).
// It goes away with its descriptor unless it is attached.
func buildDetached(tier Tier, src *source, req Request, o Options) (*tree, error) {
	var fd int
	var err error
	if src != nil {
		fd, err = cloneSource(tier, src, req, o)
	} else {
		fd, err = newFileSystem(req, o)
	}
	if err != nil {
		return nil, err
	}
	if err := mapIDs(fd, req); err != nil {
		closeFD(fd)
		return nil, err
	}
	return detachedTree(fd), nil
}

func cloneSource(tier Tier, src *source, req Request, o Options) (int, error) {
	if src.prove {
		return cloneAlone(tier, src, req, o)
	}
	return cloneTree(tier, src.cloneFD(), req, o)
}

func detachedTree(fd int) *tree {
	return &tree{
		fd: fd,
		attach: func(target int) error {
			return unix.MoveMount(fd, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		},
		release: func() { closeFD(fd) },
	}
}

// cloneTree clones the mount at fd and gives the clone its flags.
func cloneTree(tier Tier, fd int, req Request, o Options) (int, error) {
	recursive := recursively(req)
	clone := unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH | recursive
	attr := o.setattr()
	attr.Propagation = uint64(req.Propagation.ms())
	if tier >= TierTreeAttr {
		return openTreeAttr(fd, clone, &attr)
	}
	tree, err := unix.OpenTree(fd, "", clone)
	if err != nil {
		return -1, err
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|recursive, &attr); err != nil {
		closeFD(tree)
		return -1, err
	}
	return tree, nil
}

// recursively is the flag for a tree with the mounts in it.
func recursively(req Request) uint {
	if req.Submounts == IncludeSubmounts {
		return unix.AT_RECURSIVE
	}
	return 0
}

// newFileSystem makes or finds the file system's instance and a mount of it.
func newFileSystem(req Request, o Options) (int, error) {
	context, err := unix.Fsopen(req.FSType, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fsTypeError(req.FSType, err)
	}
	defer closeFD(context)
	if err := configure(context, req, o); err != nil {
		return -1, withKernelLog(context, req, err)
	}
	fd, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, int(o.Set.attrs()))
	if err != nil {
		return -1, withKernelLog(context, req, err)
	}
	if err := checkDirectory(fd); err != nil {
		closeFD(fd)
		return -1, err
	}
	if req.Propagation != PropagationShared {
		return fd, nil
	}
	attr := unix.MountAttr{Propagation: unix.MS_SHARED}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

// checkDirectory says of a file system whose root is a file, as an NFS export can
// be, what mount(2) says. To attach it would be just an invalid argument.
func checkDirectory(fd int) error {
	s, err := standingOf(fd)
	if err == nil && !s.dir {
		err = fmt.Errorf("source: %w", unix.ENOTDIR)
	}
	return err
}

// longestValue is how long a string fsconfig(2) takes. To mount(2) they are one text.
const (
	longestValue = 255
	longestText  = 4095
)

// tooLong reports whether a value is too long for fsconfig(2).
func tooLong(req Request, o Options) bool {
	long := len(req.Source) > longestValue
	for _, option := range o.Data {
		long = long || isTooLong(option)
	}
	for _, secret := range req.Secrets {
		long = long || isTooLong(secret.Reveal())
	}
	return long
}

func isTooLong(option string) bool {
	_, value, _ := strings.Cut(option, "=")
	return len(value) > longestValue
}

// configure gives a file system context its source and options.
func configure(context int, req Request, o Options) error {
	if err := unix.FsconfigSetString(context, "source", req.Source); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	// As mount(2) does: "fuse.sshfs" is the type fuse with a subtype.
	if _, subtype, ok := strings.Cut(req.FSType, "."); ok {
		if err := unix.FsconfigSetString(context, "subtype", subtype); err != nil {
			return fsTypeError(req.FSType, err)
		}
	}
	if o.ReadOnly() {
		if err := unix.FsconfigSetFlag(context, "ro"); err != nil {
			return fmt.Errorf("option %q: %w", "ro", err)
		}
	}
	for _, option := range o.Data {
		if err := setOption(context, option); err != nil {
			return fmt.Errorf("option %s: %w", quote(option), err)
		}
	}
	for i, secret := range req.Secrets {
		if err := setOption(context, secret.Reveal()); err != nil {
			return fmt.Errorf("secret option %d: %w", i, err)
		}
	}
	return unix.FsconfigCreate(context)
}

func setOption(context int, option string) error {
	if key, value, ok := strings.Cut(option, "="); ok {
		return unix.FsconfigSetString(context, key, value)
	}
	return unix.FsconfigSetFlag(context, option)
}

// withKernelLog adds what the kernel wrote about the context: a line each,
// "e " for an error, "w " for a warning, "i " for information.
func withKernelLog(context int, req Request, err error) error {
	var said []string
	buf := make([]byte, 4096)
	for {
		n, readErr := unix.Read(context, buf)
		if readErr != nil || n <= 0 || len(said) == 16 {
			break
		}
		line := strings.TrimSpace(string(buf[:n]))
		if message, ok := strings.CutPrefix(line, "e "); ok {
			said = append(said, req.redact(message))
		}
	}
	if len(said) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(said, "; "))
}

func fsTypeError(fsType string, err error) error {
	return fmt.Errorf("file system type %s: %w", quote(fsType), err)
}
