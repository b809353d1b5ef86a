package scrub

import "sync/atomic"

// A tally holds the Counts while workers add to them.
type tally struct {
	files, directories atomic.Int64
}

func (t *tally) counts() Counts {
	return Counts{Files: t.files.Load(), Directories: t.directories.Load()}
}

func (t *tally) entries() int64 { return t.files.Load() + t.directories.Load() }
