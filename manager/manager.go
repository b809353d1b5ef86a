package manager

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/hostdisk"
	"github.com/volumekit/volumekit/manager/internal/reconstruction"
	"github.com/volumekit/volumekit/manager/internal/waiters"
	"github.com/volumekit/volumekit/mount"
	v1 "k8s.io/api/core/v1"
)

// A Manager keeps the volumes of a node in their desired state. Create one with [New] and
// run it with Run. All methods are safe for concurrent use, before and during Run.
type Manager struct {
	config   Config
	attacher Attacher
	disk     disk
	watches  []mountTableWatch // the best first

	wake chan struct{} // wakes the loop; length 1

	labels nodeLabels

	reconstructor *reconstruction.Reconstructor

	mu sync.Mutex // guards the world; see unlock
	world
	inUse map[v1.UniqueVolumeName]bool // as reported by MarkVolumesAsReportedInUse

	latest           atomic.Pointer[snapshot] // read by lookups without mu
	waiters          waiters.Waiters
	inUseSubscribers callbackSet
}

// ErrRunning is returned by Run while the manager already runs.
var ErrRunning = errors.New("manager: already running")

// ErrNotRunning is the cause in a [WaitError] while the manager does not run.
var ErrNotRunning = errors.New("manager: not running")

// New returns a manager, which is idle until Run. It returns an error for an invalid
// configuration.
func New(config Config) (*Manager, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	disk, err := hostdisk.New(config.Plugins.Host(), config.Mounter)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		config:   config,
		attacher: config.Attacher,
		disk:     disk,
		wake:     make(chan struct{}, 1),
		inUse:    map[v1.UniqueVolumeName]bool{},
	}
	if m.attacher == nil {
		m.attacher = pluginAttacher{}
	}
	if w, ok := mount.As[mount.TableWatcher](config.Mounter); ok {
		m.watches = append(m.watches, func(ctx context.Context) error { return w.WatchMounts(ctx, m.recordTableChange) })
	}
	if w, ok := mount.As[mount.Watcher](config.Mounter); ok {
		everything := func() { m.recordTableChange(mount.TableChange{Everything: true}) }
		m.watches = append(m.watches, func(ctx context.Context) error { return w.Watch(ctx, everything) })
	}
	m.reconstructor = &reconstruction.Reconstructor{Plugins: config.Plugins, Wake: m.wakeLoop}
	m.labels.set(config.NodeLabels)
	m.world = newWorld()
	return m, nil
}

// wakeLoop makes the loop check for work.
func (m *Manager) wakeLoop() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// withWorld calls f with the world, under its lock. f changes no part of the snapshot and notifies
// no waiters.
func (m *Manager) withWorld(f func(w *world)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.world)
}

// update calls change with the world, under its lock, and publishes the world: see unlock.
func (m *Manager) update(change func(w *world)) {
	m.mu.Lock()
	defer m.unlock()
	change(&m.world)
}

// unlock publishes the world for lookups, unlocks mu, and wakes the notified waiters: a
// waiter woken earlier would read an older world.
func (m *Manager) unlock() {
	latest := m.snapshot
	m.latest.Store(&latest)
	woken, all := m.woken, m.allWoken
	m.woken, m.allWoken = nil, false
	m.mu.Unlock()
	if all {
		m.waiters.WakeAll()
	} else {
		m.waiters.Wake(woken...)
	}
}

// published returns the snapshot that unlock published last. It takes no lock.
func (m *Manager) published() *snapshot {
	if latest := m.latest.Load(); latest != nil {
		return latest
	}
	return &snapshot{}
}

// runner returns the runner of operations.
func (m *Manager) runner() *execution.Runner {
	host := m.config.Plugins.Host()
	return &execution.Runner{
		Disk: m.disk, Mounter: m.config.Mounter, Attacher: configuredAttacher{m.attacher},
		Node: host.NodeName(), Dirs: host, Timeout: m.config.Timeout, Progress: m.reportSteps,
	}
}
