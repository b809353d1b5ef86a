package unmounting

import (
	"sync"
	"time"

	"github.com/volumekit/volumekit/mount/internal/kernel"
)

// firstForces has the time of the first forced unmount of each mount. The zero value is ready
// for use.
type firstForces struct {
	mu    sync.Mutex
	times map[kernel.MountID]time.Time
}

// maxForced bounds the remembered mounts.
const maxForced = 256

// record returns the time of the first forced unmount of a mount, which is now if there was
// none.
func (f *firstForces) record(mount kernel.MountID) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if first, ok := f.times[mount]; ok {
		return first
	}
	if f.times == nil || len(f.times) >= maxForced {
		f.times = map[kernel.MountID]time.Time{} // other processes have unmounted the mounts
	}
	f.times[mount] = time.Now()
	return f.times[mount]
}

// forget removes a mount that has left the mount table.
func (f *firstForces) forget(mount kernel.MountID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.times, mount)
}
