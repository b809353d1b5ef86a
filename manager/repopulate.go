package manager

import (
	"context"
	"time"
)

// An answer is what the source, and the plugins, say is wanted.
type answer struct {
	want population
	err  error // nothing is known
}

// repopulate asks what is wanted, while the loop goes on: a source that does not answer
// must not keep volumes waiting that are known.
func (l *loop) repopulate(ctx context.Context) {
	l.populateDue, l.asking = false, true
	l.populateDelay.until = time.Time{}
	p := populator{source: l.config.Source, plugins: l.config.Plugins, last: l.want}
	if !l.askAll {
		p.before = l.want
	}
	l.askAll = false
	l.ask(func() answer {
		ctx, cancel := context.WithTimeout(ctx, l.config.Timeout)
		defer cancel()
		pods, err := l.config.Source.Pods(ctx)
		if err != nil {
			return answer{err: err}
		}
		return answer{want: p.populate(ctx, pods)}
	})
}

// answered takes in what is wanted.
func (l *loop) answered(a answer, now time.Time) {
	l.asking = false
	switch {
	case a.err != nil:
		l.config.Logger.Warn("the source does not say which pods there are", "err", a.err)
		l.populateDelay = l.populateDelay.next(l.config.Backoff, l.config.MaxBackoff, now)
		return
	case len(a.want.failed) > 0:
		l.populateDelay = l.populateDelay.next(l.config.Backoff, l.config.MaxBackoff, now)
	default:
		l.populateDelay = delay{}
	}
	l.install(a.want)
}
