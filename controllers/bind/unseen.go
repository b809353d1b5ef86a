package bind

import (
	"time"

	"github.com/volumekit/volumekit/controllers/api"
)

// unseenPause is the pause before the next look at an object whose partner the cache does not have. The
// partner is then read from the API server.
const unseenPause = time.Minute

// pauseFor returns the pause before the next look at a claim or a volume that waits for a change of its
// partner, and 0 for a partner in the cache. A partner that a call alone has shown can end before the next
// list of a late cache: then no change of the cache queues the object.
func pauseFor[O api.Object](objects *api.Objects[O], partner O) time.Duration {
	if any(partner) == any(*new(O)) {
		return 0
	}
	cached, ok := objects.Cache().Get(api.KeyOf(partner))
	if ok && cached.GetUID() == partner.GetUID() {
		return 0
	}
	return unseenPause
}
