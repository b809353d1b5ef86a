// Package unseen limits the wait for an object that a cache does not have. A call alone has shown the
// object, as a watch is late. Such an object can end before the next list of the cache: then no change of the
// cache tells of its end.
package unseen

import (
	"time"

	"github.com/volumekit/volumekit/controllers/api"
)

// pause is the pause before the next look at an object whose partner the cache does not have. The partner
// is then read from the API server.
const pause = time.Minute

// PauseFor returns the pause before the next look at an object that waits for a change of its partner. 0: no
// look is needed, as the partner is in the cache, or is nil.
func PauseFor[O api.Object](objects *api.Objects[O], partner O) time.Duration {
	if any(partner) == any(*new(O)) {
		return 0
	}
	cached, ok := objects.Cache().Get(api.KeyOf(partner))
	if ok && cached.GetUID() == partner.GetUID() {
		return 0
	}
	return pause
}
