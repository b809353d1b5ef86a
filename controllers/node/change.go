package node

import (
	"sync"

	"github.com/volumekit/volumekit/manager"
	"k8s.io/apimachinery/pkg/types"
)

// subscribers are the functions that a source calls after changes, and the channel of Changed.
type subscribers struct {
	mu      sync.Mutex // held during the calls: the functions must not call the source
	changes map[*func(manager.Change)]bool
	content map[*func(types.UID)]bool
	poked   chan struct{}
}

// Subscribe implements manager.ChangeNotifier. changed must neither block nor call the source or
// unsubscribe. unsubscribe waits for a call in progress; after it has returned, changed is not
// called.
func (s *Source) Subscribe(changed func(manager.Change)) (unsubscribe func()) {
	return subscribe(&s.subscribers.mu, &s.subscribers.changes, &changed)
}

// SubscribeContent makes the source call changed, which is manager.Manager.MarkRemountRequired for
// a manager, with the UID of each pod that uses a changed ConfigMap or Secret. changed must neither
// block nor call the source or unsubscribe. unsubscribe waits for a call in progress; after it has
// returned, changed is not called.
func (s *Source) SubscribeContent(changed func(pod types.UID)) (unsubscribe func()) {
	return subscribe(&s.subscribers.mu, &s.subscribers.content, &changed)
}

// subscribe adds a function to all, and returns the function that removes it.
func subscribe[F any](mu *sync.Mutex, all *map[*F]bool, changed *F) (unsubscribe func()) {
	mu.Lock()
	defer mu.Unlock()
	if *all == nil {
		*all = map[*F]bool{}
	}
	(*all)[changed] = true
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(*all, changed)
	}
}

// Changed implements manager.PodSource. The channel has a buffer of one: changes that are not
// received are merged.
func (s *Source) Changed() <-chan struct{} { return s.subscribers.poked }

// report reports a change of pods, claims or volumes. The caller may hold Source.updating, and
// holds no other lock.
func (s *subscribers) report(change manager.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for changed := range s.changes {
		(*changed)(change)
	}
	select {
	case s.poked <- struct{}{}:
	default:
	}
}

// reportContent reports a change of the content of pods.
func (s *subscribers) reportContent(pods []types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for changed := range s.content {
		for _, pod := range pods {
			(*changed)(pod)
		}
	}
}
