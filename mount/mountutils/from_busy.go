package mountutils

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// busyMessages are the messages of programs for EBUSY: umount(8) of util-linux, before 2.24, and
// of busybox.
var busyMessages = []string{": target is busy", ": device is busy", ": Device or resource busy"}

// withBusy adds EBUSY to the peer's error if the error's text says so. For messages in other
// languages exit status 32 counts, if the mount has others inside.
func (f *Peer) withBusy(target string, err error) error {
	var known syscall.Errno
	if err == nil || errors.As(err, &known) {
		return err
	}
	words := strings.ReplaceAll(err.Error(), target, "")
	for _, busy := range busyMessages {
		if strings.Contains(words, busy) {
			return fmt.Errorf("%w: %w", syscall.EBUSY, err)
		}
	}
	if strings.Contains(words, "exit status 32") && f.hasMountsBelow(target) {
		return fmt.Errorf("%w: %w", syscall.EBUSY, err)
	}
	return err
}

func (f *Peer) hasMountsBelow(target string) bool {
	table, err := f.table()
	return err == nil && len(mountsBelow(table, target)) > 0
}
