package reading

import (
	"context"
	"time"
)

const (
	// maxWorkers limits concurrent reads, not counting abandoned ones.
	maxWorkers = 8
	// slowAfter is how long a caller waits for the first slow read of an object.
	slowAfter = time.Second
)

// A read is the read of one object, and its result. The reader's mutex guards all fields but
// ref and generation.
type read struct {
	ref        Ref
	generation int       // of the source at the start of the read
	since      time.Time // zero: queued
	abandoned  bool      // the caller continues without the result
	done       bool
	result     object // ErrPending until done
}

// readAll adds the results of the reads to objects, ErrPending for abandoned ones. It reports
// whether a result is of an earlier generation.
func (r *Reader) readAll(ctx context.Context, refs []Ref, generation int, objects Objects) (isOld bool) {
	var queue []*read
	for _, ref := range refs {
		in, isNew := r.findOrAddRead(ref, generation)
		switch {
		case isNew && in.abandoned:
			objects[ref] = in.result // before start: from then on the background owns in
			r.start(func() { r.readObject(ctx, in) })
		case isNew:
			queue = append(queue, in)
		default:
			isOld = isOld || in.done && in.generation != generation
			objects[ref] = in.result
		}
	}
	r.readQueue(ctx, queue)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, in := range queue {
		objects[in.ref] = in.result
	}
	return isOld
}

// findOrAddRead returns a copy of an abandoned read, and removes the read if it is done; or a
// new read, which is abandoned from the start if the last read of the object was slow.
func (r *Reader) findOrAddRead(ref Ref, generation int) (in *read, isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in := r.pending[ref]; in != nil {
		if in.done {
			delete(r.pending, ref)
		}
		now := *in
		return &now, false
	}
	in = &read{ref: ref, generation: generation, result: object{err: ErrPending}}
	if r.slow[ref] {
		in.abandoned = true
		r.pending[ref] = in
	}
	return in, true
}

// readQueue reads a queue with several workers. It returns when all reads are done or
// abandoned; a new worker replaces the one of an abandoned read.
func (r *Reader) readQueue(ctx context.Context, queue []*read) {
	waiting := make(chan *read, len(queue))
	for _, in := range queue {
		waiting <- in
	}
	close(waiting)
	done := make(chan struct{}, len(queue))
	worker := func() {
		for in := range waiting {
			if !r.readObject(ctx, in) {
				return
			}
			done <- struct{}{}
		}
	}
	for range min(maxWorkers, len(queue)) {
		r.start(worker)
	}
	tick := time.NewTicker(slowAfter / 4)
	defer tick.Stop()
	for missing := len(queue); missing > 0; {
		select {
		case <-done:
			missing--
		case <-tick.C:
			for range r.abandonSlow(queue) {
				missing--
				r.start(worker)
			}
		}
	}
}

// start runs work in the background, or at once without Spawn.
func (r *Reader) start(work func()) {
	if r.config.Spawn == nil {
		work()
		return
	}
	r.config.Spawn(work)
}

// abandonSlow abandons the slow reads of a queue and returns their number.
func (r *Reader) abandonSlow(queue []*read) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, in := range queue {
		if !in.done && !in.abandoned && !in.since.IsZero() && time.Since(in.since) >= slowAfter {
			in.abandoned = true
			r.pending[in.ref], r.slow[in.ref] = in, true
			n++
		}
	}
	return n
}

// readObject reads one object. It reports whether the caller has waited for the result; the
// result of an abandoned read is announced by Late.
func (r *Reader) readObject(ctx context.Context, in *read) (waited bool) {
	r.mu.Lock()
	in.since = time.Now()
	r.mu.Unlock()
	result, inTime := r.readInTime(ctx, in.ref)
	r.mu.Lock()
	defer r.mu.Unlock()
	in.done, in.result = true, result
	if inTime {
		delete(r.slow, in.ref)
	}
	if in.abandoned {
		r.late = append(r.late, in.ref)
		r.config.Late()
	}
	return !in.abandoned
}
