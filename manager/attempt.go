package manager

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"
)

// A spot is what was mounted at the place of an operation when it failed: where that
// changes, the operation may do what it could not.
type spot struct {
	path    string // empty: not known
	mounted bool
	mount   uint64
}

// An attempt failed, and has to wait before the next.
type attempt struct {
	delay
	at spot
}

// An attemptOf is an attempt of an operation.
type attemptOf struct {
	operation
	attempt
}

// spotOf looks where the job has failed.
func (m *Manager) spotOf(ctx context.Context, j job, out outcome) spot {
	path := out.path
	if j.verb == mountDevice || j.verb == unmountDevice {
		path = j.deviceMountPath
	}
	if path == "" || j.traits.block {
		return spot{}
	}
	ctx, cancel := context.WithTimeout(ctx, lookLong)
	defer cancel()
	s, err := m.spotAt(ctx, path)
	if err != nil {
		return spot{}
	}
	return s
}

// spotAt looks what is mounted at a path. Where there is no such path nothing is.
func (m *Manager) spotAt(ctx context.Context, path string) (spot, error) {
	mounted, id, err := m.mountAt(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return spot{path: path}, nil
	}
	return spot{path, mounted, id}, err
}

// attempts are those that wait for the next, and of which it is known where they have
// failed. The caller holds mu.
func (l *loop) attempts(now time.Time) (all []attemptOf) {
	for op, a := range l.retry {
		if a.at.path != "" && a.until.After(now) && !l.running[op.volume] {
			all = append(all, attemptOf{op, a})
		}
	}
	slices.SortFunc(all, func(a, b attemptOf) int { return a.operation.compare(b.operation) })
	return all
}

// hasten has those tried again at once, for which what was mounted has changed. If they
// fail again the pause is as long as it would have been.
func (l *loop) hasten(changed []attemptOf) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range changed {
		if l.retry[a.operation] != a.attempt {
			continue // it was tried meanwhile
		}
		a.until = time.Time{}
		l.retry[a.operation] = a.attempt
		l.dirty[a.volume] = true
	}
}
