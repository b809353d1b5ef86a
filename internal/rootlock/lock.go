// Package rootlock makes sure that one agent at a time works below a directory. It is a part of
// the agents.
package rootlock

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

// A Lock is a file in the root that the running agent has locked, and that holds its process
// ID. It ends with the process, or with Close.
type Lock struct{ file *os.File }

// ErrLocked is wrapped by the error of New if another agent holds the lock.
var ErrLocked = errors.New("another agent is running")

// Name is the name of the file in the root. The agents share it, so that one of them at a time has the root.
const Name = "nodeagent.lock"

// New locks an existing root. If another process holds the lock, the error names it.
func New(root string) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(root, Name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = flockSoon(f); err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if errors.Is(err, ErrLocked) {
		pid, _ := readPID(f) // 0 leaves it out of the error
		err = fmt.Errorf("%w: process %d", err, pid)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("-root %s: %w", root, err), f.Close())
	}
	return &Lock{f}, nil
}

// Close ends the lock.
func (l *Lock) Close() error { return l.file.Close() }

// Attempts to lock: an agent that is exiting, or that reads the lock, soon releases it.
const attempts, pause = 40, 50 * time.Millisecond

func flockSoon(f *os.File) error {
	for range attempts {
		if err := flock(f); !errors.Is(err, ErrLocked) {
			return err
		}
		time.Sleep(pause)
	}
	return flock(f)
}

// Holder returns the process ID of the agent on a root; 0: none. The error wraps
// fs.ErrNotExist if no agent has worked there.
func Holder(root string) (pid int, err error) {
	f, err := os.Open(filepath.Join(root, Name))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	if err := flock(f); !errors.Is(err, ErrLocked) {
		return 0, err
	}
	return readPID(f)
}

// readPID returns 0 if the file is still empty.
func readPID(f *os.File) (pid int, err error) {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0, err
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, nil // the agent has just started
	}
	return pid, nil
}
