package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A lock is a file in the root that the agent which works there has locked, and that
// holds its process ID. It ends with the process.
type lock struct{ *os.File }

var errLocked = errors.New("another agent is at work there")

const lockName = "nodeagent.lock"

func newLock(root string) (lock, error) {
	f, err := os.OpenFile(filepath.Join(root, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return lock{}, err
	}
	if err = flockSoon(f); err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		return lock{}, errors.Join(fmt.Errorf("-root %s: %w", root, err), f.Close())
	}
	return lock{f}, nil
}

// flockSoon waits a little for an agent that is being killed, and for who only asks.
func flockSoon(f *os.File) error {
	const often, pause = 40, 50 * time.Millisecond
	for range often {
		if err := flock(f); !errors.Is(err, errLocked) {
			return err
		}
		time.Sleep(pause)
	}
	return flock(f)
}

// holder returns the process that works on a root; 0: none does.
func holder(root string) (pid int, err error) {
	f, err := os.Open(filepath.Join(root, lockName))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	if err := flock(f); !errors.Is(err, errLocked) {
		return 0, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0, err
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, nil // it has only just begun
	}
	return pid, nil
}
