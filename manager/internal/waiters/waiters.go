package waiters

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Waiters are the waiting calls, by pod; calls that wait for all pods have no UID. The zero
// value has none.
type Waiters struct {
	mu    sync.Mutex // held for moments, and never along with another lock
	byPod map[types.UID]map[chan struct{}]bool
}

// Add returns a channel of length one that receives a value when the pod is notified.
func (w *Waiters) Add(pod types.UID) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	woken := make(chan struct{}, 1)
	if w.byPod == nil {
		w.byPod = map[types.UID]map[chan struct{}]bool{}
	}
	if w.byPod[pod] == nil {
		w.byPod[pod] = map[chan struct{}]bool{}
	}
	w.byPod[pod][woken] = true
	return woken
}

// Remove removes a channel.
func (w *Waiters) Remove(pod types.UID, woken chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.byPod[pod], woken); len(w.byPod[pod]) == 0 {
		delete(w.byPod, pod)
	}
}

// Wake wakes the waiters of the pods, and those of all pods.
func (w *Waiters) Wake(pods ...types.UID) {
	if len(pods) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pod := range append(pods, "") {
		wakeEach(w.byPod[pod])
	}
}

// WakeAll wakes all waiters.
func (w *Waiters) WakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.byPod {
		wakeEach(all)
	}
}

// wakeEach sends to the channels that have room: a notified waiter checks once.
func wakeEach(all map[chan struct{}]bool) {
	for woken := range all {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}
