// Package unseen limits the wait for the change of an object that a cache does not have, or not in the state that a
// call has shown, as a watch is late. Such an object can end, and such a state can change back, before the next list
// of the cache: then no change of the cache reports it.
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

// PauseForState returns the pause before the next look at an object that a call may have shown in a state which the cache
// does not have. 0: no look is needed, as the cache has this state, or the object is nil.
func PauseForState[O api.Object](objects *api.Objects[O], object O) time.Duration {
	if any(object) == any(*new(O)) {
		return 0
	}
	cached, ok := objects.Cache().Get(api.KeyOf(object))
	if ok && cached.GetUID() == object.GetUID() && cached.GetResourceVersion() == object.GetResourceVersion() {
		return 0
	}
	return pause
}
