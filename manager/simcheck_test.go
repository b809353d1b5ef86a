package manager

import (
	"context"
	"maps"
	"path"
	"slices"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/podspec"
	"github.com/volumekit/volumekit/mount"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// checkStart checks that an operation may start.
func (s *simulation) checkStart(op operation.Operation) {
	for _, j := range s.pending {
		if j.Volume == op.Volume && (op.Verb != operation.TearDown || j.Verb != operation.TearDown || j.Pod.Pod == op.Pod.Pod) {
			s.fail("%v of %s starts while %v is in flight", op, op.Volume, j.Operation)
		}
	}
	if p := s.backoffs[op]; p.until.After(s.now) && p.mount == s.mountAt(op) && s.keepsBackoff(op) {
		s.fail("%v of %s is retried %v too early", op, op.Volume, p.until.Sub(s.now))
	}
	if op.Verb == operation.SetUp {
		s.checkNewSetUp(op)
	}
	delete(s.tornDown, operation.Operation{Verb: operation.TearDown, Volume: op.Volume, Pod: op.Pod})
	if op.Verb == operation.Attach && s.reportFirst && !s.reported[op.Volume] {
		s.fail("%v starts before the volume is reported as in use", op)
	}
	if operation.BringsUp(op.Verb) || op.Verb == operation.Expand {
		return
	}
	if !s.source.hasProcessed {
		s.fail("%v of %s starts before the source has returned all pods", op, op.Volume)
	}
	if have := s.loop.have.Volumes.Get(op.Volume); op.Verb != operation.TearDown && s.isKeptFor(have) {
		s.fail("%v: pod %s, for which the step was done, still runs", op, have.LastPod.Pod)
	}
	pod := s.source.processed[op.Pod.Pod]
	if op.Verb == operation.TearDown && pod != nil && !podspec.IsTerminated(pod) && !s.isEmpty(op) {
		s.fail("%v: pod %s still runs", op, op.Pod.Pod)
	}
}

// isEmpty reports whether no volume is up in the directory of an operation: another process may
// have unmounted it, and the volume may have been recreated, before a restart.
func (s *simulation) isEmpty(op operation.Operation) bool {
	return s.world.truth().life(naming.PodDir{Pod: op.Pod.Pod, Plugin: path.Dir(string(op.Volume)), Name: op.Pod.Name}) == ""
}

// checkNewSetUp fails for the first set-up of a volume for a pod that is being deleted.
func (s *simulation) checkNewSetUp(op operation.Operation) {
	pod := s.source.processed[op.Pod.Pod]
	if pod != nil && pod.DeletionTimestamp != nil && !s.startedSetUps[op.Pod] {
		s.fail("%v starts, and the pod is being deleted", op)
	}
	s.startedSetUps[op.Pod] = true
}

// recordTornDown records the volumes that are certainly gone from a pod.
func (s *simulation) recordTornDown(op operation.Operation, err error) {
	if op.Verb == operation.TearDown && err == nil {
		s.tornDown[op] = true
	}
}

// checkStaysGone: a volume that is gone from a pod stays absent, whichever operation ends later.
func (s *simulation) checkStaysGone() {
	for op := range s.tornDown {
		if have := s.loop.have.Volumes.Get(op.Volume); have != nil && have.StateOf(op.Pod) != actual.Absent {
			s.fail("%s is gone from %s, and %s again", op.Volume, op.Pod.Pod, have.StateOf(op.Pod))
		}
	}
}

// isKeptFor reports whether the volume was attached or mounted for a running pod and is the one
// that the pod needs: neither another life of it nor a read-only mount.
func (s *simulation) isKeptFor(have *actual.Volume) bool {
	pod := s.source.processed[have.LastPod.Pod]
	if pod == nil || podspec.IsTerminated(pod) || have.Spec == nil || simLife(have.Spec) != s.currentLife(have.Spec.Name()) {
		return false
	}
	return !have.DeviceReadOnly && !s.world.torn[have.Spec.Name()]
}

// mountAt returns the mount at the place of an operation; 0: none.
func (s *simulation) mountAt(op operation.Operation) (id uint64) {
	plugin := path.Dir(string(op.Volume))
	at := simDevices(plugin) + simNameOf(op.Volume)
	if op.Pod.Pod != "" {
		at = simPath(naming.PodDir{Pod: op.Pod.Pod, Plugin: plugin, Name: op.Pod.Name})
	}
	for _, info := range s.world.truth().table {
		if info.Mountpoint == at {
			id = uint64(info.ID) // the top one, if there are several
		}
	}
	return id
}

// keepsBackoff reports whether the backoff of an operation stays while its pod is away: that of a
// set-up ends with the pod.
func (s *simulation) keepsBackoff(op operation.Operation) bool {
	return op.Verb == operation.TearDown || op.Verb == operation.UnmountDevice || op.Verb == operation.Detach
}

// checkStates compares the true state with the forbidden states and with the answers of the manager.
func (s *simulation) checkStates() {
	s.dropNoticed()
	s.checkStaysGone()
	s.checkMounts()
	s.checkRecords()
	s.checkOnePod()
	s.checkWaiting()
	s.checkGone()
	s.checkInUse()
	s.checkForeignPaths()
}

// dropNoticed drops the mounts that a mount check has covered.
func (s *simulation) dropNoticed() {
	isChecked := !s.loop.mounts.hasQueued() && !s.loop.mounts.timer.IsRunning() && len(s.pending) == 0
	for target := range s.unnoticed {
		if isChecked && !s.loop.mounts.timer.IsUnchecked(target) {
			delete(s.unnoticed, target)
		}
	}
}

// checkMounts fails for two mounts at one place, for a mount of another volume, and for a writable
// mount of a read-only volume.
func (s *simulation) checkMounts() {
	t := s.world.truth()
	seen := map[string]bool{}
	for _, info := range t.table {
		if seen[info.Mountpoint] {
			s.fail("two mounts at %s", info.Mountpoint)
		}
		seen[info.Mountpoint] = true
	}
	for dir, info := range t.dirs {
		if life := lifeOf(info); life != "" && !isLife(life, viewedName(dir)) {
			s.fail("%s is in %s", life, simPath(dir))
		}
		if s.isReadOnlyIn(dir) && info.Flags&mount.ReadOnly == 0 && lifeOf(info) != "" {
			s.fail("%s is writable, and has to be read-only", simPath(dir))
		}
	}
}

// isReadOnlyIn reports whether the pod requests the volume read-only.
func (s *simulation) isReadOnlyIn(dir naming.PodDir) bool {
	pod := s.allPods[dir.Pod]
	if pod == nil {
		return false
	}
	use := usesIn(pod)[dir.Name]
	return use.readOnly || use.readOnlyMount
}

// checkRecords: each attached, staged or device-mounted volume has a record, which is all that
// remains of it after a crash.
func (s *simulation) checkRecords() {
	t := s.world.truth()
	there := slices.AppendSeq(slices.Collect(maps.Values(s.world.attached)), maps.Values(t.staged))
	for _, info := range t.device {
		there = append(there, lifeOf(info))
	}
	for _, life := range there {
		if life != "" && s.world.tree[recordPath(simUnique(life))] == nil {
			s.fail("%s exists without a record", life)
		}
	}
}

func (s *simulation) checkOnePod() {
	for _, vol := range simVolumes {
		for _, unique := range simUniques(vol) {
			if users := s.world.usersOf(unique); needs(vol, "o") && len(users) > 0 && users[0].Pod != users[len(users)-1].Pod {
				s.fail("%s is for one pod, and in %v", unique, users)
			}
		}
	}
}

var simEndedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// checkWaiting: waits and lookups for a pod return only volumes that are up.
func (s *simulation) checkWaiting() {
	m, t := s.loop.Manager, s.world.truth()
	for uid, pod := range s.source.pods {
		mounted := m.GetMountedVolumesForPod(uid)
		for _, v := range mounted {
			s.checkUp(t, naming.PodDir{Pod: uid, Plugin: v.Plugin, Name: path.Base(v.Path)}, simUnique(simLife(v.Spec)))
		}
		if m.want.Pod(uid) != pod || m.WaitForAttachAndMount(simEndedContext, pod) != nil {
			continue
		}
		if len(mounted) != len(pod.Spec.Volumes) {
			s.fail("all volumes of %s are reported as up, and %d are listed", uid, len(mounted))
		}
	}
}

// checkUp fails if a volume that is reported as up is not up as its pod requests it.
func (s *simulation) checkUp(t *simTruth, dir naming.PodDir, as v1.UniqueVolumeName) {
	if s.unnoticed[simPath(dir)] {
		return
	}
	if !s.world.isLife(dir, as) {
		s.fail("%s is reported as up in %s, and %q is", as, dir.Pod, t.life(dir))
	}
	if info, ok := t.dirs[dir]; ok && info.Flags&mount.ReadOnly != 0 != s.isReadOnlyIn(dir) {
		s.fail("%s is reported as up in %s: read-only %v", dir.Name, dir.Pod, !s.isReadOnlyIn(dir))
	}
}

// checkGone fails if the volumes of a pod, or of all pods, are reported as gone while one of them
// is up.
func (s *simulation) checkGone() {
	m, t := s.loop.Manager, s.world.truth()
	all := m.WaitForAllPodsUnmount(simEndedContext)
	for _, dir := range slices.AppendSeq(slices.Collect(maps.Keys(t.dirs)), maps.Keys(t.mapped)) {
		if t.life(dir) == "" {
			continue
		}
		pod := &v1.Pod{}
		if pod.UID = dir.Pod; m.want.Pod(dir.Pod) == nil && m.WaitForUnmount(simEndedContext, pod) == nil {
			s.fail("%s is reported as gone from %s", t.life(dir), dir.Pod)
		}
		if all == nil {
			s.fail("all volumes are reported as gone, and %s is in %s", t.life(dir), dir.Pod)
		}
	}
}

// checkInUse fails if a mounted volume is not reported as in use, because a controller could then
// detach it. A volume with a torn record is exempt: the manager cannot identify it.
func (s *simulation) checkInUse() {
	inUse := s.loop.GetVolumesInUse()
	for unique := range s.world.attached {
		if s.world.hasMounted(unique) && !s.world.torn[simNameOf(unique)] && !slices.Contains(inUse, unique) {
			s.fail("%s is mounted, and not reported as in use", unique)
		}
	}
	for _, vol := range simVolumes {
		for _, unique := range simUniques(vol) {
			if s.loop.VolumeIsAttached(unique) && s.world.attached[unique] == "" {
				s.fail("%s is reported as attached", unique)
			}
		}
	}
}

// checkInUseReports: subscribers were called for the last change of the volumes in use.
func (s *simulation) checkInUseReports() {
	names, complete := s.loop.CompleteVolumesInUse()
	if complete != s.inUseComplete || complete && !slices.Equal(names, s.inUse) {
		s.fail("in use: %v (complete: %v), and as of the last call of a subscriber %v (%v)", names, complete, s.inUse, s.inUseComplete)
	}
}

// checkForeignPaths fails if a path of another program is gone.
func (s *simulation) checkForeignPaths() {
	for _, name := range s.foreignPaths {
		if s.world.tree[name] == nil {
			s.fail("the foreign path %s is gone", name)
		}
	}
	csi := &v1.Pod{}
	if csi.UID = types.UID("csi"); len(s.foreignPaths) > 1 && s.loop.WaitForUnmount(simEndedContext, csi) == nil {
		s.fail("an unrecognized volume is reported as gone")
	}
}
