package workers

import "sync"

// replayTurn is the number of turns of which one handles a replay.
const replayTurn = 16

// priorities is the order of the keys in a work queue: news in the order of its arrival, then
// replays. The work queue calls it under a lock of its own, apart from note.
type priorities[K comparable] struct {
	mu      sync.Mutex // guards all fields; locked after the lock of the work queue
	noted   map[K]bool // keys that were added as news and have not been popped
	news    []K
	replays []K
	waiting map[K]bool // in the queue; the value states whether as news
	turns   int
}

func newPriorities[K comparable]() *priorities[K] {
	return &priorities[K]{noted: map[K]bool{}, waiting: map[K]bool{}}
}

// note marks the key as news for the following Push or Touch.
func (p *priorities[K]) note(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noted[key] = true
}

// Touch receives a key that is added while it waits. A replay that was noted becomes news; its
// entry among the replays remains, and Pop skips it.
func (p *priorities[K]) Touch(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noted[key] && !p.waiting[key] {
		p.waiting[key] = true
		p.news = append(p.news, key)
	}
}

// Push adds a key that is not in the queue.
func (p *priorities[K]) Push(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNews := p.noted[key]
	p.waiting[key] = isNews
	if isNews {
		p.news = append(p.news, key)
	} else {
		p.replays = append(p.replays, key)
	}
}

// Len returns the number of waiting keys.
func (p *priorities[K]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// Pop removes the next key and returns it. Len must be above 0.
func (p *priorities[K]) Pop() K {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skip()
	p.turns++
	var key K
	if len(p.news) == 0 || len(p.replays) > 0 && p.turns%replayTurn == 0 {
		key = popFirst(&p.replays)
	} else {
		key = popFirst(&p.news)
	}
	if p.waiting[key] { // otherwise a note belongs to an Add that has not reached the queue yet
		delete(p.noted, key)
	}
	delete(p.waiting, key)
	return key
}

// skip removes the entries of replays that have become news from the front, so that the first
// replay is one that waits as a replay.
func (p *priorities[K]) skip() {
	for len(p.replays) > 0 {
		if isNews, ok := p.waiting[p.replays[0]]; ok && !isNews {
			return
		}
		popFirst(&p.replays)
	}
}

// popFirst removes the first key and returns it. It clears the element, so that the array behind
// the slice does not keep the key alive.
func popFirst[K any](keys *[]K) K {
	key := (*keys)[0]
	(*keys)[0] = *new(K)
	*keys = (*keys)[1:]
	return key
}
