package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// A simWorld is the truth that a simulated manager works on: a kernel, a disk, and
// storage behind them. It outlives the manager.
type simWorld struct {
	kernel   *mounttest.Fake
	tree     simTree
	attached map[string]string // by volume, which life of it
	sizes    map[string]int64  // of file systems, by life
	storage  map[string]int64  // the sizes that they may have

	dead     map[string]bool   // volumes whose servers do not answer
	garbled  map[podDir]bool   // volumes that their plugin does not understand
	torn     map[string]bool   // volumes whose records are
	tampered map[string]bool   // mounts for all pods that somebody has taken away
	parts    map[string]podDir // of volumes, where containers have them

	renewed map[podDir]bool // false: it was to be set up again, and was not yet

	fault     simFault // of what runs
	breakIn   int      // so many steps go well, and the next fails; below 0: none does
	killIn    int      // so many steps, and then the process is gone; below 0: it stays
	steps     int      // that have changed something
	violation func(format string, args ...any)
	cached    *simTruth
}

// A simFault is what goes wrong with an operation.
type simFault int

const (
	works          simFault = iota
	failsBefore             // nothing has changed, try again
	failsFinally            // nothing has changed
	failsAfter              // it was done, and that is not known
	failsBetween            // it was not done, and that is not known
	breaks                  // at one of its steps
	kernelFails             // to mount or to unmount
	kernelUnsure            // has done so, and does not know
	kernelSilent            // about what is mounted
	recordFails             // to be written, or removed
	recordLate              // is written, or removed, and that is not known
	tidyFails               // directories cannot be removed
	panics                  // after it was done
	numberOfFaults          // and those before panics are what a killed process may meet
)

var (
	errSim          = errors.New("simulated")
	errKilled       = errors.New("the process is gone")
	errSimUncertain = fmt.Errorf("%w: simulated", volume.ErrUncertain)
)

func newSimWorld(policy mount.UnmountStep) *simWorld {
	w := &simWorld{
		tree: newSimTree(), attached: map[string]string{}, sizes: map[string]int64{}, storage: map[string]int64{}, dead: map[string]bool{},
		garbled: map[podDir]bool{}, torn: map[string]bool{}, tampered: map[string]bool{}, parts: map[string]podDir{}, renewed: map[podDir]bool{}, breakIn: -1, killIn: -1,
	}
	w.kernel = mounttest.NewFakeOn(mount.Config{Unmount: mount.UnmountPolicy{Last: policy}}, w.tree)
	return w
}

// strikes reports whether the fault is the one that is to come, which it is then not
// any more.
func (w *simWorld) strikes(fault simFault) bool {
	if w.fault != fault {
		return false
	}
	w.fault = works
	return true
}

// call does something as a plugin, or not.
func (w *simWorld) call(ctx context.Context, do func() error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case w.strikes(failsBefore):
		return fmt.Errorf("%w: %w", volume.ErrTransient, errSim)
	case w.strikes(failsFinally):
		return errSim
	case w.strikes(failsBetween):
		return errSimUncertain
	}
	err := do()
	switch {
	case w.strikes(panics):
		panic(errSim)
	case err == nil && w.strikes(failsAfter):
		return errSimUncertain
	}
	return err
}

// step lets a process make one more change, or not.
func (w *simWorld) step() error {
	switch {
	case w.killIn == 0:
		return errKilled
	case w.killIn > 0:
		w.killIn--
	}
	if w.breakIn >= 0 {
		if w.breakIn--; w.breakIn < 0 {
			return syscall.EIO
		}
	}
	w.steps++
	w.cached = nil
	return nil
}

// accuse tells of a violation, if there is still a process that could have done it.
func (w *simWorld) accuse(format string, args ...any) {
	if w.killIn != 0 {
		w.violation(format, args...)
	}
}

func (w *simWorld) mount(ctx context.Context, req mount.Request) error {
	if err := w.step(); err != nil {
		return err
	}
	defer w.strikeKernel(mounttest.OpMount)()
	return w.kernel.Mount(&endsWhenAwaited{Context: ctx}, req)
}

func (w *simWorld) unmount(ctx context.Context, target string) error {
	if err := w.step(); err != nil {
		return err
	}
	defer w.strikeKernel(mounttest.OpUnmount)()
	return w.kernel.Unmount(&endsWhenAwaited{Context: ctx}, target)
}

// strikeKernel lets the next call of the kernel fail, if that is to come.
func (w *simWorld) strikeKernel(op string) (after func()) {
	switch {
	case w.strikes(kernelFails):
		w.kernel.Inject(mounttest.Fault{Op: op, Err: syscall.EIO, Times: 1})
	case w.strikes(kernelUnsure):
		w.kernel.Inject(mounttest.Fault{Op: op, Err: syscall.EIO, Times: 1, After: true})
	default:
		return func() {}
	}
	return w.resetKernel
}

// resetKernel leaves the kernel with the dead servers alone.
func (w *simWorld) resetKernel() {
	w.kernel.ClearFaults()
	for _, vol := range slices.Sorted(maps.Keys(w.dead)) {
		w.kernel.Inject(mounttest.Fault{Hang: true, FSType: simFSType(vol)})
	}
}

func simFSType(vol string) string { return "sim-" + vol }

// An endsWhenAwaited is a context that ends as soon as somebody waits for it: here nobody
// comes to put an end to waiting otherwise.
type endsWhenAwaited struct {
	context.Context
	awaited bool
}

var simEnded = func() chan struct{} {
	ended := make(chan struct{})
	close(ended)
	return ended
}()

func (c *endsWhenAwaited) Done() <-chan struct{} {
	c.awaited = true
	return simEnded
}

func (c *endsWhenAwaited) Err() error {
	if c.awaited {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// Value hides what the context below it is.
func (c *endsWhenAwaited) Value(any) any { return nil }

func (w *simWorld) mkdirs(name string) error {
	if err := w.step(); err != nil {
		return err
	}
	return w.tree.mkdirs(name)
}

func (w *simWorld) writeFile(name string, data []byte) error {
	if err := w.step(); err != nil {
		return err
	}
	return w.tree.write(name, data)
}

func (w *simWorld) rename(from, to string) error {
	if err := w.step(); err != nil {
		return err
	}
	return w.tree.rename(from, to)
}

func (w *simWorld) unlink(name string) error {
	if err := w.step(); err != nil {
		return err
	}
	return w.tree.remove(name)
}

// unmake removes a directory and those around it that are empty then, as one that made
// them. It does not break: what an undo leaves is there until the next start.
func (w *simWorld) unmake(name string) {
	w.breakIn = -1
	for w.rmdir(name) == nil && strings.Count(name, "/") > 2 {
		name = path.Dir(name)
	}
}

// rmdir is refused where something is mounted, and must not go through a mount.
func (w *simWorld) rmdir(name string) error {
	if err := w.step(); err != nil {
		return err
	}
	if slices.ContainsFunc(w.truth().table, func(info mount.Info) bool { return info.Mountpoint == name }) {
		return syscall.EBUSY
	}
	w.cached = nil
	if real, _, err := w.kernel.RealPath(name); err == nil && real != name {
		w.accuse("%s is removed through a mount, as %s", real, name)
	}
	return w.tree.remove(name)
}

// A simTruth is what is mounted and mapped.
type simTruth struct {
	dirs   map[podDir]mount.Info // in the directories of pods
	device map[string]mount.Info // for all pods, by volume
	mapped map[podDir]string     // devices, to which life of a volume
	staged map[string]string     // the same, for all pods
	table  []mount.Info
}

// truth asks the kernel and the disk.
func (w *simWorld) truth() *simTruth {
	if w.cached != nil {
		return w.cached
	}
	t := &simTruth{map[podDir]mount.Info{}, map[string]mount.Info{}, map[podDir]string{}, map[string]string{}, nil}
	t.table, _ = w.kernel.List(context.Background())
	for _, info := range t.table {
		if vol, ok := strings.CutPrefix(info.Mountpoint, simDevices); ok {
			t.device[vol] = info
		} else if dir, ok := podDirOf(info.Mountpoint, "volumes"); ok {
			t.dirs[dir] = info
		}
	}
	for _, uid := range w.tree.names("/pods") {
		for _, vol := range w.tree.names("/pods/" + uid + "/volumeDevices/" + simEscaped) {
			dir := podDir{types.UID(uid), simName, vol}
			t.mapped[dir] = string(w.tree[simMapPath(dir)].data)
		}
	}
	for _, vol := range w.tree.names(strings.TrimSuffix(simMaps, "/")) {
		if staged := w.tree[simMaps+vol+"/staged"]; staged != nil {
			t.staged[vol] = string(staged.data)
		}
	}
	w.cached = t
	return t
}

// podDirOf returns whose directory a path is.
func podDirOf(name, kind string) (podDir, bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 6 || parts[1] != "pods" || parts[3] != kind || parts[4] != simEscaped {
		return podDir{}, false
	}
	return podDir{types.UID(parts[2]), simName, parts[5]}, true
}

// lifeOf returns which life of which volume a mount shows: "" for what is not ours.
func lifeOf(info mount.Info) string {
	if life, ok := strings.CutPrefix(info.Source, "/dev/"); ok {
		return life
	}
	if vol, ok := strings.CutPrefix(info.Root, simShared); ok {
		return vol
	}
	return ""
}

// isLife reports whether it is one of the volume.
func isLife(life, vol string) bool {
	of, _, _ := strings.Cut(life, ".")
	return of == vol
}

// hasMounted reports whether the volume is mounted, or mapped, for all pods or for one.
func (w *simWorld) hasMounted(vol string) bool {
	_, staged := w.truth().staged[vol]
	return staged || isLife(lifeOf(w.truth().device[vol]), vol) || len(w.users(vol)) > 0
}

// users returns where a volume is up in pods, sorted.
func (w *simWorld) users(vol string) []podDir {
	var users []podDir
	t := w.truth()
	for dir, info := range t.dirs {
		if isLife(lifeOf(info), vol) {
			users = append(users, dir)
		}
	}
	for dir, life := range t.mapped {
		if isLife(life, vol) {
			users = append(users, dir)
		}
	}
	slices.SortFunc(users, func(a, b podDir) int { return strings.Compare(string(a.pod), string(b.pod)) })
	return users
}

// life returns which life of a volume is up in a pod: "" for none.
func (t *simTruth) life(dir podDir) string {
	if info, ok := t.dirs[dir]; ok {
		return lifeOf(info)
	}
	return t.mapped[dir]
}
