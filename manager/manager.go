package manager

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Manager keeps the volumes of a node as they are wanted. Make one with [New], and
// have it work with Run. All methods are safe for concurrent use, before and while it
// runs.
type Manager struct {
	config   Config
	attacher Attacher
	disk     disk
	watch    func(ctx context.Context, changed func()) error // nil: nobody tells

	wake chan struct{} // the loop has something to do; length 1

	asked sync.Map // of foundVolume, what plugins are asked about

	mu        sync.Mutex
	isRunning bool
	world
	waiters map[types.UID]map[chan struct{}]bool
	inUse   map[v1.UniqueVolumeName]bool // as it was reported
}

// A world is what the manager knows.
type world struct {
	schedule
	want      population
	have      actualWorld
	restored  bool // have is what was found
	leftovers []Leftover
	// unread are the files of records that could not be read, or are not believed:
	// their volumes may be there, once somebody says which they are.
	unread map[string]brokenRecord
	// adoptable are directories whose volume gets its other name later.
	adoptable map[podDir]bool
	flights   map[v1.UniqueVolumeName]*flight
	failures  map[failureKey]error
	waits     map[failureKey]error  // why a pod has to wait, of which people were told
	told      map[failureKey]string // of what fails for all pods, in which words they were told

	dirty        map[v1.UniqueVolumeName]bool // volumes to plan
	tableChanged bool
}

// A flight is an operation that runs.
type flight struct {
	operation
	user      types.UID // the pod that it is done for, of those that bring something up
	since     time.Time
	cancel    context.CancelCauseFunc
	cancelled bool
	lookAfter bool // the mount table has changed meanwhile
}

// A failureKey is what failed last: an operation for all pods has an empty podKey.
type failureKey struct {
	volume v1.UniqueVolumeName
	pod    podKey
}

// ErrRunning is returned by Run of a manager that runs already.
var ErrRunning = errors.New("manager: it runs already")

// ErrNotRunning is why volumes are waited for in vain, see [WaitError], while the manager
// does not run.
var ErrNotRunning = errors.New("manager: it does not run")

// New returns a manager. It does nothing before Run. A configuration that lacks
// something is an error.
func New(config Config) (*Manager, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	disk, err := newHostDisk(config.Host, config.Mounter)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		config:   config,
		attacher: config.Attacher,
		disk:     disk,
		wake:     make(chan struct{}, 1),
		waiters:  map[types.UID]map[chan struct{}]bool{},
		inUse:    map[v1.UniqueVolumeName]bool{},
	}
	if m.attacher == nil {
		m.attacher = pluginAttacher{}
	}
	if w, ok := config.Mounter.(watcher); ok {
		m.watch = w.Watch
	}
	m.world = newWorld()
	return m, nil
}

func newWorld() world {
	return world{
		schedule:  schedule{running: map[v1.UniqueVolumeName]bool{}, retry: map[operation]attempt{}, revisions: map[podKey]int64{}},
		have:      newActualWorld(),
		adoptable: map[podDir]bool{},
		flights:   map[v1.UniqueVolumeName]*flight{},
		failures:  map[failureKey]error{},
		waits:     map[failureKey]error{},
		told:      map[failureKey]string{},
		dirty:     map[v1.UniqueVolumeName]bool{},
	}
}

// watcher is mount.Watcher.
type watcher interface {
	Watch(ctx context.Context, changed func()) error
}

// poke has the loop look what there is to do.
func (m *Manager) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// allDirty has all volumes looked at. The caller holds mu.
func (m *Manager) allDirty() {
	for name := range m.have.volumes {
		m.dirty[name] = true
	}
	for name := range m.want.volumes {
		m.dirty[name] = true
	}
}

// tell wakes those who wait for the pods, or for all. The caller holds mu.
func (m *Manager) tell(pods ...types.UID) {
	for _, pod := range append(pods, "") {
		for waiter := range m.waiters[pod] {
			select {
			case waiter <- struct{}{}:
			default:
			}
		}
	}
}

// tellAll wakes all who wait. The caller holds mu.
func (m *Manager) tellAll() {
	for pod := range m.waiters {
		m.tell(pod)
	}
}
