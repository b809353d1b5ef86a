package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A simWorld is the truth that a simulated manager works on: what is attached, mounted
// and on disk. It outlives the manager.
type simWorld struct {
	attached, device map[string]bool // by volume
	dirs             map[podDir]string
	files            map[v1.UniqueVolumeName]record

	fault     simFault // of the next call
	violation func(format string, args ...any)
}

// notMounted is in a directory in which nothing is mounted.
const notMounted = ""

// A simFault is how a call of a plugin ends.
type simFault int

const (
	works        simFault = iota
	failsBefore           // nothing has changed, try again
	failsFinally          // nothing has changed
	failsAfter            // it was done, and that is not known
	failsBetween          // it was not done, and that is not known
	panics                // after it was done
	numberOfFaults
)

var errSim = errors.New("simulated")

// call does something, or not.
func (w *simWorld) call(ctx context.Context, do func() error) error {
	fault := w.fault
	w.fault = works
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch fault {
	case failsBefore:
		return fmt.Errorf("%w: %w", volume.ErrTransient, errSim)
	case failsFinally:
		return errSim
	case failsBetween:
		return fmt.Errorf("%w: %w", volume.ErrUncertain, errSim)
	}
	err := do()
	switch {
	case fault == panics:
		panic(errSim)
	case fault == failsAfter && err == nil:
		return fmt.Errorf("%w: %w", volume.ErrUncertain, errSim)
	}
	return err
}

// users returns where a volume is mounted for pods.
func (w *simWorld) users(vol string) []podDir {
	var users []podDir
	for dir, mounted := range w.dirs {
		if mounted == vol {
			users = append(users, dir)
		}
	}
	return users
}

// The records, as hostDisk has them.
func (w *simWorld) write(rec record) error {
	w.files[rec.Volume] = rec
	return nil
}

func (w *simWorld) remove(name v1.UniqueVolumeName) error {
	delete(w.files, name)
	return nil
}

func (w *simWorld) read() ([]record, []error) {
	var all []record
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		all = append(all, w.files[name])
	}
	return all, nil
}

func (w *simWorld) place() string     { return "records" }
func (w *simWorld) tidy(string) error { return nil }

func (w *simWorld) sweep() {}

func (w *simWorld) volumes() ([]foundVolume, error) {
	var found []foundVolume
	for dir := range w.dirs {
		escaped, err := volume.EscapeQualifiedName(dir.plugin)
		if err != nil {
			return nil, err
		}
		found = append(found, foundVolume{pod: dir.pod, plugin: escaped, name: dir.name, path: simPath(dir)})
	}
	slices.SortFunc(found, func(a, b foundVolume) int { return strings.Compare(a.path, b.path) })
	return found, nil
}

func simPath(dir podDir) string { return "/" + string(dir.pod) + "/" + dir.name }

// IsMountPoint is all that the manager asks of a kernel.
func (w *simWorld) IsMountPoint(_ context.Context, path string) (bool, error) {
	if vol, ok := strings.CutPrefix(path, "/device/"); ok {
		return w.device[vol], nil
	}
	pod, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return w.dirs[podDir{types.UID(pod), simName, name}] != notMounted, nil
}

type simKernel struct {
	mount.Interface // nil: nothing else is asked
	*simWorld
}

func (k simKernel) IsMountPoint(ctx context.Context, path string) (bool, error) {
	return k.simWorld.IsMountPoint(ctx, path)
}
