package workers

import (
	"errors"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/denial"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// freeConflicts is the number of conflicts in a row that are no failures. Two programs that undo
// each other's writes for ever would occupy a worker otherwise.
const freeConflicts = 5

// mostDelay is the longest pause that the API server can ask for.
const mostDelay = time.Hour

// tries counts the failures and conflicts of a key since its last success.
type tries struct {
	failures  int
	conflicts int // in a row
	denial    string
}

// after returns the counts after an error, and whether the error is a failure.
func (t tries) after(err error) (next tries, failed bool) {
	if apierrors.IsConflict(err) && t.conflicts < freeConflicts {
		return tries{t.failures, t.conflicts + 1, t.denial}, false
	}
	next = tries{failures: t.failures + 1, denial: t.denial}
	if denial.Is(err) {
		next.denial = err.Error()
	}
	return next, true
}

// pause returns the pause after a number of failures: doubled with each one, from first to most.
func pause(failures int, first, most time.Duration) time.Duration {
	length := first
	for range failures - 1 {
		if length >= most/2 {
			return most
		}
		length *= 2
	}
	return min(length, most)
}

// plan schedules the next turn of a key: after result.After, at once after a conflict, or after the
// backoff of a failure.
func (p *Pool[K]) plan(key K, result Result, err error) {
	if err == nil {
		p.succeed(key, result)
		return
	}
	p.mu.Lock()
	before := p.tries[key]
	next, failed := before.after(err)
	p.tries[key] = next
	p.mu.Unlock()
	if next.denial != before.denial && p.config.Denied != nil {
		p.config.Denied(key, err)
	}
	if !failed {
		p.Add(key)
		return
	}
	length := pause(next.failures, p.config.Backoff, p.config.MaxBackoff)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok { // Retry-After of the API server
		length = max(length, min(time.Duration(seconds)*time.Second, mostDelay))
	}
	p.log(key, err, length)
	p.addAfter(key, length)
}

// succeed clears the failures of a key and schedules its next turn if result.After is set.
func (p *Pool[K]) succeed(key K, result Result) {
	p.mu.Lock()
	delete(p.tries, key)
	p.mu.Unlock()
	if result.After > 0 {
		p.addAfter(key, result.After)
	}
}

func (p *Pool[K]) log(key K, err error, pause time.Duration) {
	args := []any{"controller", p.config.Name, "key", key, "err", err, "retry", pause}
	var panicked *panicError
	if errors.As(err, &panicked) {
		args = append(args, "stack", string(panicked.stack))
	}
	p.config.Logger.Warn("handling failed", args...)
}

// A delay is a pause after which a key is added.
type delay struct{ timer *time.Timer }

// addAfter adds a key after a pause. The turn that calls it has cancelled the delay before.
func (p *Pool[K]) addAfter(key K, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &delay{}
	d.timer = time.AfterFunc(pause, func() {
		if p.remove(key, d) {
			p.Add(key)
		}
	})
	p.delays[key] = d
}

// remove removes a delay that has ended, and returns false if the delay was cancelled before.
func (p *Pool[K]) remove(key K, d *delay) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delays[key] != d {
		return false
	}
	delete(p.delays, key)
	return true
}

// begin cancels the delay of a key whose turn begins.
func (p *Pool[K]) begin(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy[key] = false
	if d, ok := p.delays[key]; ok {
		d.timer.Stop()
		delete(p.delays, key)
	}
}

// end ends the turn of a key after its plan, and reports whether a replay is due that came during the turn.
func (p *Pool[K]) end(key K) (isReplayDue bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isReplayed := p.busy[key]
	delete(p.busy, key)
	return isReplayed && p.tries[key].failures == 0
}

// keepReplay reports whether a replay is not to be queued: the key is in backoff, or in a turn, whose end queues it.
func (p *Pool[K]) keepReplay(key K) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, isBusy := p.busy[key]; isBusy {
		p.busy[key] = true
		return true
	}
	return p.delays[key] != nil && p.tries[key].failures > 0
}

func (p *Pool[K]) stopDelays() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, d := range p.delays {
		d.timer.Stop()
		delete(p.delays, key)
	}
}
