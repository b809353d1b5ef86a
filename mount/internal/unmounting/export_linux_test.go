package unmounting

// UnmountAt is unmountAt.
func UnmountAt(parent int, name string) error { return unmountAt(parent, name, 0) }

// AddEnd adds a superblock at path that ends when ended is closed.
func (u *Unmounter) AddEnd(path string, ended <-chan struct{}) { u.ends.add(path, ended) }

// PendingEnds returns the number of paths with superblocks that have not ended.
func (u *Unmounter) PendingEnds() int {
	u.ends.mu.Lock()
	defer u.ends.mu.Unlock()
	return len(u.ends.pending)
}

// Bounds of a brief end.
const (
	MaxBriefBytes = maxBriefBytes
	MaxBriefFiles = maxBriefFiles
)
