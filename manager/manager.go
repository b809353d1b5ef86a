package manager

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/hostdisk"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/manager/internal/reconstruction"
	"github.com/volumekit/volumekit/manager/internal/record"
	"github.com/volumekit/volumekit/manager/internal/waiters"
	"github.com/volumekit/volumekit/mount"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Manager keeps the volumes of a node in their desired state. Create one with [New] and
// run it with Run. All methods are safe for concurrent use, before and during Run.
type Manager struct {
	config   Config
	attacher Attacher
	disk     disk
	watch    []func(ctx context.Context) error // watches of the mount table, the best first

	wake chan struct{} // wakes the loop; length 1

	reconstructor *reconstruction.Reconstructor

	mu sync.Mutex // guards the world; see unlock
	world
	inUse    map[v1.UniqueVolumeName]bool // as reported by MarkVolumesAsReportedInUse
	woken    []types.UID                  // pods whose waiters unlock wakes
	allWoken bool                         // unlock wakes all waiters

	latest           atomic.Pointer[snapshot] // read by lookups without mu
	waiters          waiters.Waiters
	inUseSubscribers callbackSet
}

// A world is the desired and the actual state, and the state of the reconciler.
type world struct {
	snapshot
	// adoptable are directories whose volume is renamed after its in-flight operation.
	adoptable   map[naming.PodDir]bool
	waitReasons map[failureKey]error  // last reported reason why a pod waits
	eventTexts  map[failureKey]string // last reported failure of a shared step, by pod

	tracker inUseTracker

	dirty         map[v1.UniqueVolumeName]bool // volumes to plan
	planned       int                          // number of plans made
	tableChanged  bool                         // all mounts have to be checked
	placesToCheck map[naming.Place]bool        // places whose mounts have to be checked
	checkFailed   bool                         // the mount points of failed operations have to be checked
	tableEvents   int                          // mount events during in-flight operations
}

// A snapshot is the part of the world that lookups read. A copy is immutable: its maps are
// persistent or replaced as a whole.
type snapshot struct {
	schedule  planning.Schedule
	isRunning bool
	want      desired.Population
	have      actual.World
	restored  bool // have contains the volumes of the earlier run
	leftovers []Leftover
	// brokenRecords are the record files that are unreadable or invalid; their volumes may
	// exist.
	brokenRecords persistent.Map[string, record.Broken]
	failures      persistent.Map[failureKey, error]
}

// A failureKey names the failure of an operation; a shared step has an empty PodKey.
type failureKey struct {
	volume v1.UniqueVolumeName
	pod    naming.PodKey
}

// ErrRunning is returned by Run while the manager already runs.
var ErrRunning = errors.New("manager: it runs already")

// ErrNotRunning is the cause in a [WaitError] while the manager does not run.
var ErrNotRunning = errors.New("manager: it does not run")

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
	if w, ok := config.Mounter.(mount.TableWatcher); ok {
		m.watch = append(m.watch, func(ctx context.Context) error { return w.WatchMounts(ctx, m.recordTableChange) })
	}
	if w, ok := config.Mounter.(mount.Watcher); ok {
		everything := func() { m.recordTableChange(mount.TableChange{Everything: true}) }
		m.watch = append(m.watch, func(ctx context.Context) error { return w.Watch(ctx, everything) })
	}
	m.reconstructor = &reconstruction.Reconstructor{Plugins: config.Plugins, Wake: m.wakeLoop}
	m.world = newWorld()
	return m, nil
}

// newWorld returns a world without volumes, with its maps allocated.
func newWorld() world {
	return world{
		adoptable:     map[naming.PodDir]bool{},
		waitReasons:   map[failureKey]error{},
		eventTexts:    map[failureKey]string{},
		tracker:       inUseTracker{names: map[v1.UniqueVolumeName]bool{}},
		dirty:         map[v1.UniqueVolumeName]bool{},
		placesToCheck: map[naming.Place]bool{},
	}
}

// wakeLoop makes the loop check for work.
func (m *Manager) wakeLoop() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// markAllDirty queues all volumes for planning. The caller holds mu.
func (m *Manager) markAllDirty() {
	for name := range m.have.Volumes.Keys() {
		m.dirty[name] = true
	}
	for name := range m.want.Volumes.Keys() {
		m.dirty[name] = true
	}
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

// notifyWaiters makes unlock wake the waiters of these pods and those of all pods. The
// caller holds mu.
func (m *Manager) notifyWaiters(pods ...types.UID) { m.woken = append(m.woken, pods...) }

// notifyAllWaiters makes unlock wake all waiters. The caller holds mu.
func (m *Manager) notifyAllWaiters() { m.allWoken = true }

// runner returns the runner of operations.
func (m *Manager) runner() *execution.Runner {
	host := m.config.Plugins.Host()
	return &execution.Runner{
		Disk: m.disk, Mounter: m.config.Mounter, Attacher: configuredAttacher{m.attacher},
		Node: host.NodeName(), Dirs: host, Timeout: m.config.Timeout, OwnershipProgress: m.ownershipEvents,
	}
}
