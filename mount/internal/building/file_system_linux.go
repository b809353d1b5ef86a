package building

import (
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/mount/internal/text"
	"golang.org/x/sys/unix"
)

// mountFileSystem creates or finds the superblock, and returns a detached mount of it.
func mountFileSystem(s *spec.Spec) (int, error) {
	context, err := unix.Fsopen(s.FSType, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, typeError(s.FSType, err)
	}
	defer kernel.Close(context)
	if err := configure(context, s); err != nil {
		return -1, withKernelLog(context, s, err)
	}
	fd, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, int(s.Options.Set.Attributes()))
	if err != nil {
		return -1, withKernelLog(context, s, err)
	}
	if err := checkDirectory(fd); err != nil {
		kernel.Close(fd)
		return -1, err
	}
	if s.Propagation != spec.PropagationShared {
		return fd, nil
	}
	shared := unix.MountAttr{Propagation: unix.MS_SHARED}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &shared); err != nil {
		kernel.Close(fd)
		return -1, err
	}
	return fd, nil
}

// checkDirectory refuses a file system whose root is a file, which an NFS export can be, with
// the error of mount(2). move_mount(2) would only report an invalid argument.
func checkDirectory(fd int) error {
	root, err := kernel.LocationOf(fd)
	if err == nil && !root.Dir {
		err = fmt.Errorf("source: %w", unix.ENOTDIR)
	}
	return err
}

// maxValue limits a value for fsconfig(2); maxText limits all options together for mount(2).
const (
	maxValue = 255
	maxText  = 4095
)

// isTooLong reports whether the spec has a value that is too long for fsconfig(2), so that
// only mount(2) can pass it.
func isTooLong(s *spec.Spec) bool {
	long := len(s.Source) > maxValue
	for _, option := range s.Options.Data {
		long = long || hasLongValue(option)
	}
	for _, secret := range s.Secrets {
		long = long || hasLongValue(secret.Reveal())
	}
	return long
}

func hasLongValue(option string) bool {
	_, value, _ := strings.Cut(option, "=")
	return len(options.Unquote(value)) > maxValue
}

// configure sets the source and the options of a file system context, and creates the
// superblock.
func configure(context int, s *spec.Spec) error {
	if err := unix.FsconfigSetString(context, "source", s.Source); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	// As in mount(2), "fuse.sshfs" is the type fuse with a subtype.
	if _, subtype, ok := strings.Cut(s.FSType, "."); ok {
		if err := unix.FsconfigSetString(context, "subtype", subtype); err != nil {
			return typeError(s.FSType, err)
		}
	}
	if s.Options.ReadOnly() {
		if err := unix.FsconfigSetFlag(context, "ro"); err != nil {
			return fmt.Errorf("option %q: %w", "ro", err)
		}
	}
	for _, option := range s.Options.Data {
		if err := setUnquoted(context, option); err != nil {
			return fmt.Errorf("option %s: %w", text.Quote(option), err)
		}
	}
	for i, secret := range s.Secrets {
		key, value, hasValue := strings.Cut(secret.Reveal(), "=") // quotes belong to a password
		if err := setOption(context, key, value, hasValue); err != nil {
			return fmt.Errorf("secret option %d: %w", i, err)
		}
	}
	return unix.FsconfigCreate(context)
}

// setUnquoted sets an option. Quotes around its value, which fsconfig(2) does not know, are
// removed, as by mount(8).
func setUnquoted(context int, option string) error {
	key, value, hasValue := strings.Cut(option, "=")
	return setOption(context, key, options.Unquote(value), hasValue)
}

func setOption(context int, key, value string, hasValue bool) error {
	if hasValue {
		return unix.FsconfigSetString(context, key, value)
	}
	return unix.FsconfigSetFlag(context, key)
}

// withKernelLog adds the error messages of a file system context, a line each: "e " stands
// before an error, "w " before a warning, "i " before information.
func withKernelLog(context int, s *spec.Spec, err error) error {
	var messages []string
	buf := make([]byte, 4096)
	for {
		n, readErr := unix.Read(context, buf)
		if readErr != nil || n <= 0 || len(messages) == 16 {
			break
		}
		line := strings.TrimSpace(string(buf[:n]))
		if message, ok := strings.CutPrefix(line, "e "); ok {
			messages = append(messages, options.Redact(message, s.Secrets))
		}
	}
	if len(messages) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(messages, "; "))
}

// typeError returns an error about a file system type.
func typeError(fsType string, err error) error {
	if errors.Is(err, unix.ENODEV) {
		err = fmt.Errorf("%w: %w", failure.ErrUnknownFSType, err)
	}
	return fmt.Errorf("file system type %s: %w", text.Quote(fsType), err)
}
