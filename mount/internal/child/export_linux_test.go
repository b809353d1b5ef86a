package child

import (
	"errors"

	"golang.org/x/sys/unix"
)

// StartGuard starts a guard of a hold. The function releases it and returns the error of its exit; it
// is none that the release came before the guard's wait.
func StartGuard(hold int) (release func() error, err error) {
	guard, err := startGuard(hold)
	return func() error {
		guard.release()
		if err := guard.reap(); !errors.Is(err, unix.EAGAIN) {
			return err
		}
		return nil
	}, err
}
