package docker

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks a file until release or the end of the process. If another process has locked it the error is errServed.
func lockFile(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return func() { _ = f.Close() }, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errServed
	}
	return nil, errors.Join(err, f.Close())
}
