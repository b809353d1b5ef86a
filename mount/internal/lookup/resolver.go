package lookup

import "github.com/volumekit/volumekit/util/keylock"

// A Resolver resolves paths. Its zero value is ready for use, also by several goroutines.
type Resolver struct {
	// waiting is locked by mount ID for each step that waits for a file system.
	waiting keylock.Map
}
