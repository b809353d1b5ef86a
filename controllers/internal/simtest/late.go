package simtest

import (
	"sync"
	"time"
)

// Late has the effects of calls that come after the calls have returned. The zero value has none. The mutex of
// the simulated storage guards it, and is locked during the effects.
type Late struct{ effects []*lateEffect }

type lateEffect struct {
	timer   *time.Timer
	isEnded bool // a timer that is stopped may have fired already, and wait for the mutex
}

// Add adds an effect that comes after a pause. The caller has locked mu.
func (l *Late) Add(mu sync.Locker, pause time.Duration, effect func()) {
	added := &lateEffect{}
	added.timer = time.AfterFunc(pause, func() {
		mu.Lock()
		defer mu.Unlock()
		if !added.isEnded {
			effect()
		}
	})
	l.effects = append(l.effects, added)
}

// End prevents the effects that have not come.
func (l *Late) End() {
	for _, effect := range l.effects {
		effect.timer.Stop()
		effect.isEnded = true
	}
	l.effects = nil
}
