package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// askers is how many claims or volumes are asked for at the same time, not counting
	// those that are slow.
	askers = 8
	// askPatience is how long other pods wait for an answer, the first time that it is
	// slow.
	askPatience = time.Second
)

// A question is for a claim, or for a volume, which has no namespace.
type question struct {
	forVolume       bool
	namespace, name string
}

type reply struct {
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
	err    error
}

// An inquiry is a question that is being asked, and what comes of it.
type inquiry struct {
	question
	generation int       // of what the source had when it was asked
	since      time.Time // zero: it is in line
	left       bool      // others have gone on without the answer
	answered   bool
	now        reply // until then, errAsking
}

var (
	// errAsking stands for an answer that may still come.
	errAsking   = errors.New("the source has been asked, and has not answered yet")
	errNoAnswer = errors.New("the source has not answered")
)

// An inquirer asks the source what is behind the volumes of pods. Answers that take long
// it leaves to come later, and keeps them for who asks then; nothing is asked twice
// meanwhile.
type inquirer struct {
	source  Source
	timeout time.Duration
	spawn   func(work func()) // has work done; nil: at once
	tell    func()            // is called when one that was left is answered

	mu   sync.Mutex
	open map[question]*inquiry // that were left
	slow map[question]bool     // that had to be left last, and are not waited for
	late bool                  // one that was left is answered
}

func newInquirer(m *Manager) *inquirer {
	return &inquirer{
		source: m.config.Source, timeout: m.config.SourceTimeout, tell: m.poke,
		open: map[question]*inquiry{}, slow: map[question]bool{},
	}
}

// isLate reports whether an answer has come that had been left, once for each.
func (q *inquirer) isLate() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	late := q.late
	q.late = false
	return late
}

// askAll adds the answers to what is known, or errAsking. It reports whether one of them
// is of an earlier generation.
func (q *inquirer) askAll(ctx context.Context, questions []question, generation int, all gathered) (old bool) {
	var line []*inquiry
	for _, question := range questions {
		in, isNew := q.take(question, generation)
		switch {
		case isNew && in.left:
			all[question] = in.now // which is not ours any more from then on
			q.start(func() { q.ask(ctx, in) })
			continue
		case isNew:
			line = append(line, in)
			continue
		case in.answered:
			old = old || in.generation != generation
		}
		all[question] = in.now
	}
	q.askInLine(ctx, line)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, in := range line {
		all[in.question] = in.now
	}
	return old
}

// take returns a copy of what has been asked already, and removes it if it is answered;
// or else a new inquiry, which is left at once if its like was slow.
func (q *inquirer) take(about question, generation int) (in *inquiry, isNew bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if in := q.open[about]; in != nil {
		if in.answered {
			delete(q.open, about)
		}
		now := *in
		return &now, false
	}
	in = &inquiry{question: about, generation: generation, now: reply{err: errAsking}}
	if q.slow[about] {
		in.left = true
		q.open[about] = in
	}
	return in, true
}

// askInLine returns when all are answered, or left.
func (q *inquirer) askInLine(ctx context.Context, line []*inquiry) {
	waiting := make(chan *inquiry, len(line))
	for _, in := range line {
		waiting <- in
	}
	close(waiting)
	answered := make(chan struct{}, len(line))
	asker := func() {
		for in := range waiting {
			if !q.ask(ctx, in) {
				return // another is in its place
			}
			answered <- struct{}{}
		}
	}
	for range min(askers, len(line)) {
		q.start(asker)
	}
	tick := time.NewTicker(askPatience / 4)
	defer tick.Stop()
	for missing := len(line); missing > 0; {
		select {
		case <-answered:
			missing--
		case <-tick.C:
			for range q.leave(line) {
				missing--
				q.start(asker)
			}
		}
	}
}

func (q *inquirer) start(work func()) {
	if q.spawn == nil {
		work()
		return
	}
	q.spawn(work)
}

// leave returns how many have been asked for too long to wait for the answer any more.
func (q *inquirer) leave(line []*inquiry) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, in := range line {
		if !in.answered && !in.left && !in.since.IsZero() && time.Since(in.since) >= askPatience {
			in.left = true
			q.open[in.question], q.slow[in.question] = in, true
			n++
		}
	}
	return n
}

// ask asks one question. It reports whether somebody has waited for the answer.
func (q *inquirer) ask(ctx context.Context, in *inquiry) (waited bool) {
	q.mu.Lock()
	in.since = time.Now()
	q.mu.Unlock()
	r, inTime := q.answer(ctx, in.question)
	q.mu.Lock()
	defer q.mu.Unlock()
	in.answered, in.now = true, r
	if inTime {
		delete(q.slow, in.question)
	}
	if in.left {
		q.late = true
		q.tell()
	}
	return !in.left
}

// answer is the source's. One that fails once its time is over counts as none.
func (q *inquirer) answer(ctx context.Context, about question) (r reply, inTime bool) {
	limited, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	if r = q.askSource(limited, about); r.err != nil && limited.Err() != nil {
		return reply{err: fmt.Errorf("%w in %v: %s", errNoAnswer, q.timeout, r.err.Error())}, false
	}
	return r, true
}

func (q *inquirer) askSource(ctx context.Context, about question) (r reply) {
	defer recovered(&r.err)
	if about.forVolume {
		r.volume, r.err = q.source.PersistentVolume(ctx, about.name)
	} else {
		r.claim, r.err = q.source.PersistentVolumeClaim(ctx, about.namespace, about.name)
	}
	return r
}

// forget drops what nobody asks for any more.
func (q *inquirer) forget(asked gathered) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for about, in := range q.open {
		if _, ok := asked[about]; !ok && in.answered {
			delete(q.open, about)
		}
	}
	for about := range q.slow {
		if _, ok := asked[about]; !ok && q.open[about] == nil {
			delete(q.slow, about)
		}
	}
}
