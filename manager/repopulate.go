package manager

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// An answer is what the source, and the plugins, say is wanted.
type answer struct {
	want population
	err  error // nothing is known
	old  bool  // in part from before something has changed
}

// repopulate asks what is wanted, while the loop goes on: a source that does not answer
// must not keep volumes waiting that are known.
func (l *loop) repopulate(ctx context.Context) {
	l.populateDue, l.asking = false, true
	l.populateDelay.until = time.Time{}
	p := populator{plugins: l.config.Plugins, node: newNode(l.config), last: l.want, thereFor: l.thereFor}
	if !l.askAll {
		p.before = l.want
	}
	l.askAll = false
	generation := l.generation
	l.ask(func() answer {
		pods, err := l.askPods(ctx)
		if err != nil {
			return answer{err: err}
		}
		all, old := l.inquirer.gather(ctx, pods, generation)
		p.source = all
		return answer{want: p.populate(ctx, pods), old: old}
	})
}

// askPods returns the pods that the source tells of. A panic, or a pod that is none, is an
// error: then it is not known which pods there are.
func (m *Manager) askPods(ctx context.Context) (pods []*v1.Pod, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.config.SourceTimeout)
	defer cancel()
	defer recovered(&err)
	if pods, err = m.config.Source.Pods(ctx); err == nil && slices.Contains(pods, nil) {
		err = errNilPod
	}
	return pods, err
}

var errNilPod = errors.New("one of the pods is nil")

// answered takes in what is wanted.
func (l *loop) answered(a answer, now time.Time) {
	l.asking = false
	if a.err != nil {
		l.config.Logger.Warn("the source does not say which pods there are", logged(a.err)...)
		l.populateDelay = l.populateDelay.next(l.config.Backoff, l.config.MaxBackoff, now)
		return
	}
	l.populateDelay = delay{until: l.askAgain(a.want, now)}
	l.populateDue = l.populateDue || a.old
	l.install(a.want)
}

// askAgain returns when to ask again for the volumes that failed, of which each has a
// delay of its own: that one is broken keeps no other waiting. That an answer has come
// which is still missing is told, and so is what only a change mends.
func (l *loop) askAgain(want population, now time.Time) (at time.Time) {
	delays := map[podVolume]delay{}
	for v, err := range want.failed {
		d := l.unanswered[v]
		if want.asking[v] || errors.Is(err, errNoSuchVolume) || errors.Is(err, errRebound) {
			delays[v] = d
			continue
		}
		if !d.until.After(now) {
			d = d.next(l.config.Backoff, l.config.MaxBackoff, now)
		}
		delays[v] = d
		at = earlier(at, d.until)
	}
	l.unanswered = delays
	return at
}
