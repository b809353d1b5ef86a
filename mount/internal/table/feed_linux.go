package table

import (
	"errors"
	"fmt"
)

// An Event is the news about one mount.
type Event struct {
	Mount uint64 // unique mount ID
	Gone  bool   // detached; a detached mount never returns
	Moved bool   // together with the mounts below it, which have no events of their own
}

// A Feed reports the changes of the mount table since the last report, or since it was
// opened. Reading it does not wait.
type Feed interface {
	// ReadEvents returns the events in their order; the slice is valid until the next call.
	// all reports that any mount may have changed. After an error the feed is unusable.
	ReadEvents() (events []Event, all bool, err error)
	// Close releases the feed. The garbage collector closes a lost feed, too.
	Close()
}

// An OpenFeed opens a feed for the mount table of the calling thread. table is the path of the
// mountinfo file.
type OpenFeed func(table string) (Feed, error)

// bestFeeds are the feeds in the order of preference.
var bestFeeds = []OpenFeed{OpenEvents, OpenPoll}

// openFirstFeed opens the first feed that the kernel has.
func openFirstFeed(feeds []OpenFeed, table string) (Feed, error) {
	errs := []error{errNoFeed}
	for _, open := range feeds {
		f, err := open(table)
		if err == nil {
			return f, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

var errNoFeed = fmt.Errorf("the kernel reports no changes of the mount table: %w", errors.ErrUnsupported)
