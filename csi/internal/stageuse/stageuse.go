// Package stageuse keeps the publications of a staged volume from its unstaging. A volume manager never begins both
// at the same time; another embedder may.
package stageuse

import (
	"errors"
	"sync"
)

// Uses are the publications and unstagings in flight, by staging path. The zero value has none.
type Uses struct {
	mu         sync.Mutex // guards the fields below
	publishing map[string]int
	unstaging  map[string]bool
}

var (
	// ErrPublishing is the error for a volume that is to be unstaged and is being published.
	ErrPublishing = errors.New("the volume is being published")
	// ErrUnstaging is the error for a volume that is to be published and is being unstaged.
	ErrUnstaging = errors.New("the volume is being unstaged")
)

// Publish begins a publication of a volume, until end is called. Any number of them may be in flight. While the
// volume is being unstaged the error is [ErrUnstaging].
func (u *Uses) Publish(staging string) (end func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.unstaging[staging] {
		return nil, ErrUnstaging
	}
	if u.publishing == nil {
		u.publishing = map[string]int{}
	}
	u.publishing[staging]++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.publishing[staging]--; u.publishing[staging] == 0 {
			delete(u.publishing, staging)
		}
	}, nil
}

// Unstage begins the unstaging of a volume, until end is called. While the volume is being published the error is
// [ErrPublishing]. The caller begins one unstaging of a volume at a time.
func (u *Uses) Unstage(staging string) (end func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.publishing[staging] > 0 {
		return nil, ErrPublishing
	}
	if u.unstaging == nil {
		u.unstaging = map[string]bool{}
	}
	u.unstaging[staging] = true
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.unstaging, staging)
	}, nil
}
