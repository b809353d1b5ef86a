package podvolume

import (
	"errors"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

// hasKubeletNote reports whether the kubelet has noted in a directory that a volume is ready.
// Its note is an empty file that all users may read. A note of this package that a loss of power
// has torn is empty, too, but other users may not read it.
func hasKubeletNote(dir string) (bool, error) {
	name := path.Join(dir, readyName)
	at, err := openDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(at) }()
	var st unix.Stat_t
	switch err := unix.Fstatat(at, readyName, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == 0 && st.Mode&unix.S_IROTH != 0, nil
}
