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
	if errors.Is(err, errLocked) {
		pid, _ := readPID(f) // without it that is all there is to say
		err = fmt.Errorf("%w: process %d", err, pid)
	}
	if err != nil {
		return lock{}, errors.Join(fmt.Errorf("-root %s: %w", root, err), f.Close())
	}
	return lock{f}, nil
}

// An agent that is being killed, and who only asks, are waited for so long.
const often, pause = 40, 50 * time.Millisecond

func flockSoon(f *os.File) error {
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
	return readPID(f)
}

// readPID returns 0 if nobody has written one yet.
func readPID(f *os.File) (pid int, err error) {
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
