package mount

import (
	"errors"
	"fmt"
)

// A feed tells what has changed in the mount table since it was asked last, or
// opened. It is asked without waiting, and does nothing in between.
type feed interface {
	// changes returns the mounts that came, went or were moved. With all, anything
	// may have changed. After an error the feed is of no use.
	changes() (ids []uint64, all bool, err error)
	// close gives back what the feed holds. A feed that is dropped is closed, too.
	close()
}

// A wayToKnow opens a feed.
type wayToKnow func() (feed, error)

// feeds are the ways to be told, the best first.
var feeds = []wayToKnow{openEvents, openPoll}

// openFeed opens the first feed that there is.
func openFeed(ways []wayToKnow) (feed, error) {
	errs := []error{errNoFeed}
	for _, open := range ways {
		f, err := open()
		if err == nil {
			return f, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

var errNoFeed = fmt.Errorf("nothing tells of changes of the mount table: %w", errors.ErrUnsupported)
