package mountutils

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// busyWords is how programs say EBUSY: umount(8) of util-linux, before 2.24, and of busybox.
var busyWords = []string{": target is busy", ": device is busy", ": Device or resource busy"}

// inUse returns the peer's error as one that wraps EBUSY if that is what it says. In the
// words of another language, exit status 32 is that of a mount with others inside.
func (f *Peer) inUse(target string, err error) error {
	var known syscall.Errno
	if err == nil || errors.As(err, &known) {
		return err
	}
	words := strings.ReplaceAll(err.Error(), target, "")
	for _, busy := range busyWords {
		if strings.Contains(words, busy) {
			return fmt.Errorf("%w: %w", syscall.EBUSY, err)
		}
	}
	if strings.Contains(words, "exit status 32") && f.hasInside(target) {
		return fmt.Errorf("%w: %w", syscall.EBUSY, err)
	}
	return err
}

func (f *Peer) hasInside(target string) bool {
	table, err := f.table()
	return err == nil && len(inside(table, target)) > 0
}
