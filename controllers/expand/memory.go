package expand

import (
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// An attempt is the last call for a claim of this process. The zero value is none.
type attempt struct {
	claim         types.UID
	size, request resource.Quantity
	ended         time.Time
	isSettled     bool   // the call has ended without an effect
	announced     string // the last event of the claim
}

// isOf reports whether the attempt was one for this size and this request.
func (a attempt) isOf(size, request resource.Quantity) bool {
	return !a.ended.IsZero() && a.size.Cmp(size) == 0 && a.request.Cmp(request) == 0
}

// attempts are the last attempts of claims. The zero value is empty.
type attempts struct {
	mu sync.Mutex
	of map[api.Key]attempt
}

// get returns the attempt of a claim.
func (a *attempts) get(key api.Key, claim types.UID) attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.of[key]; last.claim == claim {
		return last
	}
	return attempt{claim: claim}
}

func (a *attempts) set(key api.Key, last attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[api.Key]attempt{}
	}
	a.of[key] = last
}

func (a *attempts) forget(key api.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, key)
}
