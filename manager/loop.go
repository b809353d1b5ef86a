package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/lanes"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/manager/internal/reading"
	"github.com/volumekit/volumekit/manager/internal/retry"
	"github.com/volumekit/volumekit/util/ctxend"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Run reconciles the volumes of the node until ctx ends. First it reconstructs the volumes
// of an earlier run; it tears nothing down before the source has returned all pods once.
// When ctx ends Run cancels the in-flight operations, waits for them for less than 100 ms,
// and returns nil. Mounted volumes stay mounted for the next run. The manager counts as
// running until its last in-flight operation has ended, which a hung file system can delay.
//
// While the manager does not run, [Manager.State] and the other lookups return the last
// known state, and waits continue with [ErrNotRunning] as the cause.
//
// A manager runs once at a time ([ErrRunning]), and is the only one on its host.
func (m *Manager) Run(ctx context.Context) error {
	if m.config.Plugins == nil {
		return fmt.Errorf("manager: %w", field.Required(configPath, "create the manager with New"))
	}
	if !m.startRunning() {
		return ErrRunning
	}
	pending := &reading.PendingChanges{}
	changed, unsubscribe, err := m.subscribe(pending)
	if err != nil {
		m.stopRunning()
		return err
	}
	l := newLoop(m, pending)
	l.changed = changed
	l.background = goroutines{l.results, ctx.Done(), &l.helpers}
	_, err = ctxend.Await(ctx, ctxend.Controller, func() (struct{}, error) {
		defer m.stopRunning()
		defer unsubscribe()
		return struct{}{}, l.run(ctx)
	}, nil)
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

func (m *Manager) startRunning() bool {
	m.mu.Lock()
	defer m.unlock()
	if m.isRunning {
		return false
	}
	m.world = newWorld()
	m.isRunning = true
	if m.config.ReportFirst {
		m.schedule.Reported = m.inUse
	}
	return true
}

func (m *Manager) stopRunning() {
	m.mu.Lock()
	defer m.unlock()
	m.isRunning = false
	m.notifyAllWaiters()
}

// A loop is the single goroutine that plans operations and changes the world. Its parts decide when
// to read the source, the mount table, the attachments and the disk.
type loop struct {
	*Manager
	changed    <-chan struct{}
	background background
	results    chan result // of the background
	helpers    sync.WaitGroup

	lanes    lanes.Lanes
	replanAt map[v1.UniqueVolumeName]time.Time // when to plan volumes again

	resync  time.Time
	refresh time.Time

	restorer    *restorer
	repopulator *repopulator
	mounts      *mountChecker
	attachments *attachChecker
}

// loopAccess is the access of a part of the loop to the loop.
type loopAccess interface {
	// published returns the snapshot that update published last. It takes no lock.
	published() *snapshot
	// update changes the world under its lock, and publishes it.
	update(change func(w *world))
	// withWorld is update for functions that change no part of the snapshot.
	withWorld(f func(w *world))
	// startQuery starts work in the background. The loop applies its result.
	startQuery(work func() result)
}

// newLoop returns a loop, without a background, that has all pods to read.
func newLoop(m *Manager, pending *reading.PendingChanges) *loop {
	l := &loop{
		Manager:  m,
		results:  make(chan result),
		lanes:    lanes.New(lanes.Limits{Workers: m.config.Workers, PerBackend: m.config.BackendWorkers}),
		replanAt: map[v1.UniqueVolumeName]time.Time{},
	}
	l.restorer = &restorer{loop: l, config: &m.config, disk: m.disk, reconstructor: m.reconstructor}
	l.repopulator = newRepopulator(l, &m.config, &m.labels, reading.NewReader(m.readerConfig(l.helpers.Go)), pending)
	l.mounts = &mountChecker{loop: l, config: &m.config}
	l.attachments = newAttachChecker(l, &m.config, m.attacher)
	return l
}

func (l *loop) startQuery(work func() result) { l.background.startQuery(work) }

func (l *loop) run(ctx context.Context) error {
	if err := l.restorer.restore(ctx); err != nil {
		return err
	}
	if len(l.watches) > 0 {
		l.helpers.Go(func() { watchMountTable(ctx, l.watches, l.config.Logger) })
	}
	now := time.Now()
	l.resync, l.refresh = timeAfter(now, l.config.Resync), timeAfter(now, l.config.Refresh)
	for ctx.Err() == nil {
		l.doDueWork(ctx, time.Now())
		l.waitForWork(ctx)
	}
	for l.hasFlights() {
		if out, ok := (<-l.results).(operationResult); ok {
			l.applyResult(out.Outcome, time.Now())
		}
	}
	l.helpers.Wait()
	return nil
}

// timeAfter returns the end of a period; zero, which means never, for a negative period.
func timeAfter(now time.Time, period time.Duration) time.Time {
	if period < 0 {
		return time.Time{}
	}
	return now.Add(period)
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// doDueWork does all work that is due and starts operations.
func (l *loop) doDueWork(ctx context.Context, now time.Time) {
	if isDue(l.resync, now) {
		l.resync = timeAfter(now, l.config.Resync)
		l.resyncAll()
	}
	l.restorer.mergeLate()
	l.restorer.startRescan(ctx)
	l.repopulator.startPopulation(ctx, now)
	if isDue(l.refresh, now) {
		l.refresh = timeAfter(now, l.config.Refresh)
		l.update((*world).remountAll)
	}
	if isDue(l.attachments.due, now) {
		l.attachments.startChecks(ctx, now)
	}
	l.mounts.startCheck(ctx, now)
	for name, at := range l.replanAt {
		if isDue(at, now) {
			delete(l.replanAt, name)
			l.markDirty(name)
		}
	}
	l.startDue(ctx, now)
}

// resyncAll requests a check of all pods, volumes and mounts.
func (l *loop) resyncAll() {
	l.repopulator.requestResync()
	l.withWorld(func(w *world) {
		w.mountQueue.AddAll()
		w.markAllDirty()
	})
	l.restorer.isScanDue = true
}

func (l *loop) markDirty(name v1.UniqueVolumeName) {
	l.withWorld(func(w *world) { w.dirty[name] = true })
}

func (l *loop) hasFlights() bool { return l.published().schedule.Flights.Len() > 0 }

// waitForWork returns when work may be due.
func (l *loop) waitForWork(ctx context.Context) {
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
	case r := <-l.results:
		r.applyTo(ctx, l, time.Now())
	case _, open := <-l.changed:
		l.repopulator.recordChange()
		if !open {
			l.changed = nil
		}
	}
}

// nextDue returns the next time at which work is due without a further event.
func (l *loop) nextDue(now time.Time) time.Time {
	at := retry.Earlier(retry.Earlier(l.resync, l.repopulator.delay.Until), retry.Earlier(l.attachments.due, l.nextFree(now)))
	if l.published().hasRemounts() {
		at = retry.Earlier(at, l.refresh)
	}
	at = retry.Earlier(at, l.mounts.nextCheck(now))
	for _, later := range l.replanAt {
		at = retry.Earlier(at, later)
	}
	return at
}

// startDue starts the operations that are due, as far as workers are free.
func (l *loop) startDue(ctx context.Context, now time.Time) {
	events, inUseChanged := l.startDueLocked(ctx, now)
	for _, event := range events {
		l.config.Events(event)
	}
	if inUseChanged {
		l.inUseSubscribers.call()
	}
}

// startDueLocked starts operations and returns the events of volumes that fail to start or
// have to wait, and whether the volumes in use have changed.
func (l *loop) startDueLocked(ctx context.Context, now time.Time) (events []Event, inUseChanged bool) {
	l.mu.Lock()
	defer l.unlock()
	for _, name := range slices.Sorted(maps.Keys(l.dirty)) {
		l.replan(name, now)
		events = append(events, l.waitEvents(name)...)
	}
	l.dirty = map[v1.UniqueVolumeName]bool{} // a cleared map would keep its size
	for _, key := range l.lanes.Sorted() {
		events = append(events, l.startInLane(ctx, key, now)...)
	}
	return events, l.drainInUseChange()
}

// startInLane starts queued operations of a lane while workers are free. The caller holds
// mu.
func (l *loop) startInLane(ctx context.Context, key operation.LaneKey, now time.Time) (events []Event) {
	for l.lanes.FreeWorkers(key, now) > 0 {
		name, ok := l.lanes.Dequeue(key)
		if !ok {
			break
		}
		events = append(events, l.startNext(ctx, name, now)...)
	}
	return events
}

// startNext plans the volume again, because the queued operation may be obsolete, and starts the
// planned operation, or parks the volume while its backend is full. The caller holds mu.
func (l *loop) startNext(ctx context.Context, name v1.UniqueVolumeName, now time.Time) (events []Event) {
	op, ok, again := planning.NextOperation(name, l.want.World, l.have, l.schedule, now)
	at, hasWorker := l.backendOf(name), l.lanes.ReleaseSlot(name)
	switch {
	case ok && !hasWorker && l.lanes.IsFull(at):
		l.lanes.ParkVolume(at, name)
		return nil
	case ok:
		events = l.startOperation(ctx, op, now)
		l.replan(name, now) // a tear-down in another pod may run at the same time
	case !again.IsZero():
		l.replanAt[name] = again
	}
	l.admitParked(at, now)
	return events
}

// admitParked queues the volume that has waited longest for the backend, if the backend has
// a free worker.
func (l *loop) admitParked(at operation.Backend, now time.Time) {
	if l.lanes.IsFull(at) {
		return
	}
	if next, waits := l.lanes.UnparkVolume(at); waits {
		l.replan(next, now)
	}
}

// laneOf returns the lane of an operation.
func (s *snapshot) laneOf(op operation.Operation) operation.LaneKey {
	return operation.LaneKey{Plugin: s.pluginOf(op.Volume), Attaches: op.Verb == operation.Attach || op.Verb == operation.Detach}
}

// pluginOf returns the plugin of an actual volume, else of a desired one; empty if the volume is
// neither.
func (s *snapshot) pluginOf(name v1.UniqueVolumeName) string {
	if have := s.have.Volumes.Get(name); have != nil {
		return have.Plugin
	}
	if want := s.want.Volumes.Get(name); want != nil {
		return want.Plugin
	}
	return ""
}

// backendOf returns the backend of a volume's operations.
func (s *snapshot) backendOf(name v1.UniqueVolumeName) operation.Backend {
	at := operation.Backend{Plugin: s.pluginOf(name), Name: string(name)}
	if want := s.want.Volumes.Get(name); want != nil && want.Traits.Backend != "" {
		at.Name = want.Traits.Backend
	} else if have := s.have.Volumes.Get(name); have != nil && have.Traits.Backend != "" {
		at.Name = have.Traits.Backend
	}
	return at
}

// nextFree returns when the next in-flight operation becomes slow and so frees a worker for
// a queued operation; zero: never.
func (l *loop) nextFree(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lanes.NextFree(now)
}

// replan queues the volume's next operation, or records when it will be due. The caller
// holds mu.
func (l *loop) replan(name v1.UniqueVolumeName, now time.Time) {
	l.planned++
	l.trackInUse(name)
	op, ok, again := planning.NextOperation(name, l.want.World, l.have, l.schedule, now)
	delete(l.replanAt, name)
	if ok {
		l.lanes.Enqueue(l.laneOf(op), op)
		return
	}
	if !again.IsZero() {
		l.replanAt[name] = again
	}
	l.lanes.ReleaseSlot(name)
	l.admitParked(l.backendOf(name), now)
}

// startOperation starts an operation, or returns the events of one that cannot start. The
// caller holds mu.
func (l *loop) startOperation(ctx context.Context, op operation.Operation, now time.Time) []Event {
	j, err := l.jobFor(l.config.Plugins, op)
	if err != nil {
		return l.failStart(j, err, now)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	f := &operation.Flight{Operation: op, User: j.UserUID(), Since: now, Lane: l.laneOf(op), At: l.backendOf(op.Volume), Cancel: cancel, TableEvents: l.tableEvents}
	l.schedule.Add(f)
	l.lanes.RecordStart(f)
	l.have.Put(op.Volume, execution.StateDuring(j.Before, j))
	l.background.startOperation(op, func() execution.Outcome {
		defer cancel(nil)
		return l.runner().Run(ctx, j)
	})
	return nil
}
