package manager

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Run keeps the volumes as they are wanted, until ctx ends. First it finds out what an
// earlier run has left, then it goes on from there; nothing is taken down before the
// source has told all pods once. When ctx ends the operations under way are told to end,
// Run waits for them, and returns ctx's cause: what is mounted stays mounted, for the
// next run to find. Until then what was known last is what [Manager.State] and its like
// tell, and who waits for volumes goes on waiting, with [ErrNotRunning] as the cause.
//
// A manager runs once at a time ([ErrRunning]), and is the only one on its host.
func (m *Manager) Run(ctx context.Context) error {
	changed, err := changesOf(m.config.Source)
	if err != nil {
		return err
	}
	if !m.begins() {
		return ErrRunning
	}
	defer m.ends()
	l := &loop{
		Manager:     m,
		changed:     changed,
		results:     make(chan outcome),
		scans:       make(chan finding, 1),
		answers:     make(chan answer, 1),
		sights:      make(chan sight, 1),
		unseen:      map[string]delay{},
		later:       map[v1.UniqueVolumeName]time.Time{},
		populateDue: true,
	}
	l.inquirer = newInquirer(m)
	l.inquirer.spawn = l.helpers.Go
	l.launch = func(_ operation, work func() outcome) {
		go func() { l.results <- work() }()
	}
	l.scan = func(work func() finding) {
		l.helpers.Go(func() { l.scans <- work() })
	}
	l.ask = func(work func() answer) {
		l.helpers.Go(func() { l.answers <- work() })
	}
	l.look = func(work func() sight) {
		l.helpers.Go(func() {
			begin := time.Now()
			s := work()
			s.took = time.Since(begin)
			l.sights <- s
		})
	}
	return l.run(ctx)
}

func changesOf(source Source) (changed <-chan struct{}, err error) {
	defer recovered(&err)
	return source.Changed(), nil
}

func (m *Manager) begins() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isRunning {
		return false
	}
	m.isRunning, m.world = true, newWorld()
	if m.config.ReportFirst {
		m.reported = m.inUse
	}
	return true
}

func (m *Manager) ends() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isRunning = false
	m.tellAll()
}

// A loop is the one goroutine that decides, and that changes the world.
type loop struct {
	*Manager
	changed <-chan struct{}
	results chan outcome
	launch  func(op operation, work func() outcome) // has work done, and its outcome settled later
	helpers sync.WaitGroup

	ready [lastVerb + 1][]v1.UniqueVolumeName // volumes that had an operation due, by its verb
	later map[v1.UniqueVolumeName]time.Time   // when to look at volumes again

	scans      chan finding
	scan       func(work func() finding) // has work done, and its findings taken in later
	rescanning bool
	rescanDue  bool

	answers       chan answer              // of length 1
	ask           func(work func() answer) // has work done, and its answer taken in later
	asking        bool
	inquirer      *inquirer
	generation    int // of what the source has: it grows with each change
	populateDue   bool
	askAll        bool  // the plugins, too, though nothing has changed
	populateDelay delay // after a source that failed
	unanswered    map[podVolume]delay
	resync        time.Time
	refresh       time.Time

	sights   chan sight              // of length 1
	look     func(work func() sight) // has work done, and what it sees taken in later; nil: at once
	looking  bool
	nextLook time.Time        // for volumes that have vanished, at the earliest
	unseen   map[string]delay // paths that could not be looked at
}

func (l *loop) run(ctx context.Context) error {
	if err := l.restore(ctx); err != nil {
		return err
	}
	if l.watch != nil {
		l.helpers.Go(func() { l.watchTable(ctx) })
	}
	now := time.Now()
	l.resync, l.refresh = after(now, l.config.Resync), after(now, l.config.Refresh)
	for ctx.Err() == nil {
		l.beat(ctx, time.Now())
		l.wait(ctx)
	}
	for l.inFlight() > 0 {
		l.settle(<-l.results, time.Now())
	}
	l.helpers.Wait()
	return context.Cause(ctx)
}

// after returns the end of a period; zero, which is never, of a negative one.
func after(now time.Time, period time.Duration) time.Time {
	if period < 0 {
		return time.Time{}
	}
	return now.Add(period)
}

func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// beat does all that is due.
func (l *loop) beat(ctx context.Context, now time.Time) {
	if due(l.resync, now) {
		l.resync = after(now, l.config.Resync)
		l.lookAtAll()
		l.rescanDue = true
	}
	if l.rescanDue && !l.rescanning {
		l.rescan(ctx)
	}
	if l.inquirer.isLate() {
		l.populateDue = true
	}
	if (l.populateDue || due(l.populateDelay.until, now)) && !l.asking {
		l.repopulate(ctx)
	}
	if due(l.refresh, now) {
		l.refresh = after(now, l.config.Refresh)
		l.remountAll()
	}
	l.findVanished(ctx, now)
	for name, at := range l.later {
		if due(at, now) {
			delete(l.later, name)
			l.markDirty(name)
		}
	}
	l.begin(ctx, now)
}

func (l *loop) lookAtAll() {
	l.populateDue, l.askAll = true, true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tableChanged = true
	l.allDirty()
}

func (l *loop) markDirty(name v1.UniqueVolumeName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirty[name] = true
}

func (l *loop) inFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.flights)
}

// wait returns when there may be something to do.
func (l *loop) wait(ctx context.Context) {
	var alarm <-chan time.Time
	if at := l.nextDue(time.Now()); !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-ctx.Done():
	case <-alarm:
	case <-l.wake:
	case f := <-l.scans:
		l.rescanned(ctx, f)
	case s := <-l.sights:
		l.sighted(s, time.Now())
	case a := <-l.answers:
		l.answered(a, time.Now())
	case out := <-l.results:
		l.settle(out, time.Now())
	case _, open := <-l.changed:
		l.populateDue = true
		l.generation++
		if !open {
			l.changed = nil
		}
	}
}

// nextDue is when something is to be done though nothing happens.
func (l *loop) nextDue(now time.Time) time.Time {
	at := earlier(earlier(l.resync, l.populateDelay.until), l.nextFree(now))
	if l.hasRemounts() {
		at = earlier(at, l.refresh)
	}
	if !l.looking {
		at = earlier(at, l.lookDue(now))
	}
	for _, later := range l.later {
		at = earlier(at, later)
	}
	return at
}

// begin starts what is due, as far as there are workers.
func (l *loop) begin(ctx context.Context, now time.Time) {
	for _, event := range l.beginDue(ctx, now) {
		l.config.Events(event)
	}
}

// beginDue returns what is to be told of those that cannot begin, or have to wait.
func (l *loop) beginDue(ctx context.Context, now time.Time) (events []Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(l.dirty)) {
		l.plan(name, now)
		events = append(events, l.newWaits(name)...)
	}
	l.dirty = map[v1.UniqueVolumeName]bool{} // one that was large stays so
	for verb := range l.ready {
		for len(l.ready[verb]) > 0 && l.atWork(now) < l.config.Workers {
			name := l.ready[verb][0]
			l.ready[verb] = l.ready[verb][1:]
			// What was due then may not be any more.
			if op, ok, again := planVolume(name, l.want.desiredWorld, l.have, l.schedule, now); ok {
				events = append(events, l.start(ctx, op, now)...)
			} else if !again.IsZero() {
				l.later[name] = again
			}
		}
	}
	return events
}

// patience is how long an operation counts as one that works. What takes longer waits
// for a server that does not answer, most likely, and must not keep others waiting.
const patience = 5 * time.Second

// atWork counts the operations that work. The caller holds mu.
func (l *loop) atWork(now time.Time) int {
	n := 0
	for _, f := range l.flights {
		if now.Sub(f.since) < patience {
			n++
		}
	}
	return n
}

// nextFree is when an operation will not count any more, if others wait for that.
func (l *loop) nextFree(now time.Time) (at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(l.ready[:], func(line []v1.UniqueVolumeName) bool { return len(line) > 0 }) {
		return at
	}
	for _, f := range l.flights {
		if until := f.since.Add(patience); until.After(now) {
			at = earlier(at, until)
		}
	}
	return at
}

// plan puts the volume's next operation in line, or remembers when it will be due.
func (l *loop) plan(name v1.UniqueVolumeName, now time.Time) {
	op, ok, again := planVolume(name, l.want.desiredWorld, l.have, l.schedule, now)
	delete(l.later, name)
	if ok {
		l.ready[op.verb] = append(l.ready[op.verb], name)
	} else if !again.IsZero() {
		l.later[name] = again
	}
}

// start begins an operation, or returns what is to be told if it cannot. The caller holds
// mu.
func (l *loop) start(ctx context.Context, op operation, now time.Time) []Event {
	j, err := l.jobFor(l.config.Plugins, op)
	if err != nil {
		return l.failAtOnce(j, err, now)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	l.running[op.volume] = true
	l.flights[op.volume] = &flight{operation: op, user: j.user(), since: now, cancel: cancel}
	l.have.put(op.volume, j.before.during(op, j.pod))
	l.launch(op, func() outcome {
		defer cancel(nil)
		return l.carryOut(ctx, j)
	})
	return nil
}
