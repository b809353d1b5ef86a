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

	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A simWorld is the node of a simulated manager: a kernel, a disk, and storage. It outlives the
// manager.
type simWorld struct {
	kernel   *mounttest.Fake
	tree     simTree
	attached map[v1.UniqueVolumeName]string // the life of each attached volume
	sizes    map[string]int64               // of file systems, by life
	storage  map[string]int64               // the sizes that file systems may have

	dead         map[string]bool          // volumes whose servers do not respond
	unrecognized map[naming.PodDir]bool   // volumes that their plugin cannot reconstruct
	torn         map[string]bool          // volumes with torn records
	tampered     map[string]bool          // device mounts that another process has removed
	subpaths     map[string]naming.PodDir // subpath mounts of containers, with their volumes

	renewed map[naming.PodDir]bool // false: a new set-up is required and has not run

	fault         simFault                // of the running operation
	failIn        int                     // steps until one fails; below 0: none fails
	killIn        int                     // steps until the process is killed; below 0: never
	steps         int                     // the number of changes so far
	claimSize     func(life string) int64 // the size in the status of the claim
	isCurrentLife func(life string) bool  // whether it is the current life of a volume
	violation     func(format string, args ...any)
	cached        *simTruth
	lastMounts    map[int]mount.MountChange // the mounts of the last call of recordMountEvents
	mountEvents   []mount.MountChange       // not yet published
}

// recordMountEvents adds the changes of the mount table since its last call to mountEvents.
func (w *simWorld) recordMountEvents() {
	now := map[int]mount.MountChange{}
	table, _ := w.kernel.List(context.Background())
	for _, info := range table {
		now[info.ID] = mount.MountChange{ID: uint64(info.ID), Parent: uint64(info.Parent), Target: info.Mountpoint}
		if w.lastMounts[info.ID] != now[info.ID] {
			w.mountEvents = append(w.mountEvents, now[info.ID])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.lastMounts)) {
		if _, there := now[id]; !there {
			w.mountEvents = append(w.mountEvents, mount.MountChange{ID: uint64(id)})
		}
	}
	w.lastMounts = now
}

// A simFault is the fault of an operation.
type simFault int

const (
	noFault          simFault = iota
	failBefore                // nothing has changed; transient
	failFinally               // nothing has changed; final
	failAfter                 // the work is done, and the error is uncertain
	failUncertain             // the work is not done, and the error is uncertain
	failStep                  // at one of its steps
	failKernel                // to mount or to unmount
	failKernelAfter           // mounts or unmounts, and returns an uncertain error
	failMountQueries          // a query of a mount point fails
	failRecord                // to be written, or removed
	failRecordAfter           // is written, or removed, with an uncertain error
	failCleanup               // directories cannot be removed
	panicAfter                // after it was done
	faultCount                // a killed process has only faults before panicAfter
)

var (
	errSim          = errors.New("simulated")
	errKilled       = errors.New("the process is gone")
	errSimUncertain = fmt.Errorf("%w: simulated", volume.ErrUncertain)
)

func newSimWorld(policy mount.UnmountStep) *simWorld {
	w := &simWorld{
		tree: newSimTree(), attached: map[v1.UniqueVolumeName]string{}, sizes: map[string]int64{}, storage: map[string]int64{}, dead: map[string]bool{},
		unrecognized: map[naming.PodDir]bool{}, torn: map[string]bool{}, tampered: map[string]bool{}, subpaths: map[string]naming.PodDir{}, renewed: map[naming.PodDir]bool{}, failIn: -1, killIn: -1,
	}
	w.kernel = mounttest.NewFakeOn(mount.Config{Unmount: mount.UnmountPolicy{Last: policy}}, w.tree)
	return w
}

// consumeFault reports whether the fault is the pending one, and clears it.
func (w *simWorld) consumeFault(fault simFault) bool {
	if w.fault != fault {
		return false
	}
	w.fault = noFault
	return true
}

// call runs work as a method of a plugin, with the pending fault.
func (w *simWorld) call(ctx context.Context, do func() error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case w.consumeFault(failBefore):
		return fmt.Errorf("%w: %w", volume.ErrTransient, errSim)
	case w.consumeFault(failFinally):
		return errSim
	case w.consumeFault(failUncertain):
		return errSimUncertain
	}
	err := do()
	switch {
	case w.consumeFault(panicAfter):
		panic(errSim)
	case err == nil && w.consumeFault(failAfter):
		return errSimUncertain
	}
	return err
}

// step permits one more change by the process, or returns the fault that prevents it.
func (w *simWorld) step() error {
	switch {
	case w.killIn == 0:
		return errKilled
	case w.killIn > 0:
		w.killIn--
	}
	if w.failIn >= 0 {
		if w.failIn--; w.failIn < 0 {
			return syscall.EIO
		}
	}
	w.steps++
	w.cached = nil
	return nil
}

// reportViolation reports a violation, unless the process was killed before.
func (w *simWorld) reportViolation(format string, args ...any) {
	if w.killIn != 0 {
		w.violation(format, args...)
	}
}

func (w *simWorld) mount(ctx context.Context, req mount.Request) error {
	if err := w.step(); err != nil {
		return err
	}
	defer w.recordMountEvents()
	defer w.injectKernelFault(mounttest.OpMount)()
	return w.kernel.Mount(&endsOnDone{Context: ctx}, req)
}

func (w *simWorld) unmount(ctx context.Context, target string) error {
	if err := w.step(); err != nil {
		return err
	}
	defer w.recordMountEvents()
	defer w.injectKernelFault(mounttest.OpUnmount)()
	return w.kernel.Unmount(&endsOnDone{Context: ctx}, target)
}

// injectKernelFault makes the next call of the kernel fail if a fault of the kernel is pending.
func (w *simWorld) injectKernelFault(op string) (after func()) {
	switch {
	case w.consumeFault(failKernel):
		w.kernel.Inject(mounttest.Fault{Op: op, Err: syscall.EIO, Times: 1})
	case w.consumeFault(failKernelAfter):
		w.kernel.Inject(mounttest.Fault{Op: op, Err: syscall.EIO, Times: 1, After: true})
	default:
		return func() {}
	}
	return w.resetKernel
}

// resetKernel clears the faults of the kernel, except for dead servers.
func (w *simWorld) resetKernel() {
	w.kernel.ClearFaults()
	for _, vol := range slices.Sorted(maps.Keys(w.dead)) {
		w.kernel.Inject(mounttest.Fault{Hang: true, FSType: simFSType(vol)})
	}
}

func simFSType(vol string) string { return "sim-" + vol }

// An endsOnDone is a context that ends at the first call of Done. In the simulation no
// other goroutine exists that could end a wait.
type endsOnDone struct {
	context.Context
	awaited bool
}

var simEnded = func() chan struct{} {
	ended := make(chan struct{})
	close(ended)
	return ended
}()

func (c *endsOnDone) Done() <-chan struct{} {
	c.awaited = true
	return simEnded
}

func (c *endsOnDone) Err() error {
	if c.awaited {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// Value hides the type of the parent context.
func (c *endsOnDone) Value(any) any { return nil }

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

// removeCreated removes a directory and its empty parents, as an operation that reverts itself. It
// disables the fault breaks, because the directories that a failed revert leaves stay until the
// next start.
func (w *simWorld) removeCreated(name string) {
	w.failIn = -1
	for w.rmdir(name) == nil && strings.Count(name, "/") > 2 {
		name = path.Dir(name)
	}
}

// rmdir fails with EBUSY on a mount point. A path through a mount is a violation.
func (w *simWorld) rmdir(name string) error {
	if err := w.step(); err != nil {
		return err
	}
	if slices.ContainsFunc(w.truth().table, func(info mount.Info) bool { return info.Mountpoint == name }) {
		return syscall.EBUSY
	}
	w.cached = nil
	if real, _, err := w.kernel.RealPath(name); err == nil && real != name {
		w.reportViolation("%s is removed through a mount, as %s", real, name)
	}
	return w.tree.remove(name)
}

// A simTruth holds the present mounts and mapped devices.
type simTruth struct {
	dirs   map[naming.PodDir]mount.Info // in the directories of pods
	device map[naming.PodDir]mount.Info // for all pods, see simPlace
	mapped map[naming.PodDir]string     // devices, to which life of a volume
	staged map[naming.PodDir]string     // the same, for all pods
	table  []mount.Info
}

// truth reads the mounts and mapped devices from the kernel and the disk.
func (w *simWorld) truth() *simTruth {
	if w.cached != nil {
		return w.cached
	}
	t := &simTruth{map[naming.PodDir]mount.Info{}, map[naming.PodDir]mount.Info{}, map[naming.PodDir]string{}, map[naming.PodDir]string{}, nil}
	t.table, _ = w.kernel.List(context.Background())
	for _, info := range t.table {
		if dir, ok := podDirOf(info.Mountpoint, "volumes"); ok {
			t.dirs[dir] = info
		}
	}
	for _, plugin := range []string{simName, simOther} {
		w.addShared(t, plugin)
	}
	w.cached = t
	return t
}

// addShared adds the device mounts and the devices of a plugin's volumes.
func (w *simWorld) addShared(t *simTruth, plugin string) {
	for _, info := range t.table {
		if vol, ok := strings.CutPrefix(info.Mountpoint, simDevices(plugin)); ok {
			t.device[simPlace(plugin, vol)] = info
		}
	}
	for _, uid := range w.tree.names("/pods") {
		for _, vol := range w.tree.names("/pods/" + uid + "/volumeDevices/" + simEscape(plugin)) {
			dir := naming.PodDir{Pod: types.UID(uid), Plugin: plugin, Name: vol}
			t.mapped[dir] = string(w.tree[simMapPath(dir)].data)
		}
	}
	for _, vol := range w.tree.names(strings.TrimSuffix(simMaps(plugin), "/")) {
		if staged := w.tree[simMaps(plugin)+vol+"/staged"]; staged != nil {
			t.staged[simPlace(plugin, vol)] = string(staged.data)
		}
	}
}

// viewedName returns the name of the volume in a directory, a read-only view or not.
func viewedName(d naming.PodDir) string { return podvolume.ViewedName(d.Name) }

// podDirOf returns the pod directory at a path.
func podDirOf(name, kind string) (naming.PodDir, bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 6 || parts[1] != "pods" || parts[3] != kind || parts[4] != simEscape(simName) && parts[4] != simEscape(simOther) {
		return naming.PodDir{}, false
	}
	return naming.PodDir{Pod: types.UID(parts[2]), Plugin: strings.ReplaceAll(parts[4], "~", "/"), Name: parts[5]}, true
}

// lifeOf returns the life of the mounted volume; empty: a foreign mount.
func lifeOf(info mount.Info) string {
	if life, ok := strings.CutPrefix(info.Source, "/dev/"); ok {
		return life
	}
	if vol, ok := strings.CutPrefix(info.Root, simShared); ok {
		return vol
	}
	return ""
}

// hasMounted reports whether the volume is mounted, or mapped, for all pods or for one.
func (w *simWorld) hasMounted(unique v1.UniqueVolumeName) bool {
	t := w.truth()
	for _, info := range t.device {
		if life := lifeOf(info); life != "" && simUnique(life) == unique {
			return true
		}
	}
	for _, life := range t.staged {
		if simUnique(life) == unique {
			return true
		}
	}
	return len(w.usersOf(unique)) > 0
}

// isLife reports whether the volume in a directory of a pod is this one.
func (w *simWorld) isLife(dir naming.PodDir, unique v1.UniqueVolumeName) bool {
	life := w.truth().life(dir)
	return life != "" && simUnique(life) == unique
}

// usersOf returns the directories in which a volume is up, sorted.
func (w *simWorld) usersOf(unique v1.UniqueVolumeName) []naming.PodDir {
	return w.usersWhere(func(life string) bool { return simUnique(life) == unique })
}

// usersAt returns the pods that use the device mount at a place, or with block the staged
// device.
func (w *simWorld) usersAt(at naming.PodDir, block bool) []naming.PodDir {
	return slices.DeleteFunc(w.usersWhere(func(string) bool { return true }), func(dir naming.PodDir) bool {
		_, mapped := w.truth().mapped[dir]
		return dir.Plugin != at.Plugin || viewedName(dir) != at.Name || mapped != block
	})
}

func (w *simWorld) usersWhere(is func(life string) bool) []naming.PodDir {
	var users []naming.PodDir
	t := w.truth()
	for dir, info := range t.dirs {
		if life := lifeOf(info); life != "" && is(life) {
			users = append(users, dir)
		}
	}
	for dir, life := range t.mapped {
		if is(life) {
			users = append(users, dir)
		}
	}
	slices.SortFunc(users, func(a, b naming.PodDir) int { return strings.Compare(simPath(a), simPath(b)) })
	return users
}

// life returns the life of the volume that is up in a directory; empty: none.
func (t *simTruth) life(dir naming.PodDir) string {
	if info, ok := t.dirs[dir]; ok {
		return lifeOf(info)
	}
	return t.mapped[dir]
}
