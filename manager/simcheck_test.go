package manager

import (
	"context"
	"maps"
	"slices"

	"github.com/volumekit/volumekit/mount"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// checkBegun looks at an operation that begins.
func (s *simulation) checkBegun(op operation) {
	for _, j := range s.pending {
		if j.volume == op.volume {
			s.fail("%v of %s begins while %v is under way", op, op.volume, j.operation)
		}
	}
	if p := s.notUntil[op]; p.until.After(s.now) && p.mount == s.mountAt(op) && s.stillThere(op) {
		s.fail("%v of %s is tried again %v too early", op, op.volume, p.until.Sub(s.now))
	}
	if op.verb == attach && s.reportFirst && !s.reported[op.volume] {
		s.fail("%v begins, and is not reported as in use", op)
	}
	if isUp(op.verb) || op.verb == expand {
		return
	}
	if !s.source.toldOnce {
		s.fail("%v of %s begins before anybody has said which pods there are", op, op.volume)
	}
	if have := s.loop.have.volumes[op.volume]; op.verb != tearDown && s.isKeptFor(have) {
		s.fail("%v: pod %s still runs, for whom it was done", op, have.lastPod.pod)
	}
	if pod := s.source.told[op.pod.pod]; op.verb == tearDown && pod != nil && !isTerminated(pod) {
		s.fail("%v: pod %s still runs", op, op.pod.pod)
	}
}

// isKeptFor reports whether what is there for all pods was brought up for one that runs,
// and is what that one wants: not another life of it, nor one to be read only.
func (s *simulation) isKeptFor(have *actualVolume) bool {
	pod := s.source.told[have.lastPod.pod]
	if pod == nil || isTerminated(pod) || have.spec == nil || simLife(have.spec) != s.life(have.name) {
		return false
	}
	return !have.deviceReadOnly && !s.world.torn[have.name]
}

// mountAt returns what is mounted at the place of an operation; 0: nothing is.
func (s *simulation) mountAt(op operation) (id uint64) {
	at := simDevices + volumeOf(op.volume)
	if op.pod.pod != "" {
		at = simPath(podDir{op.pod.pod, simName, op.pod.name})
	}
	for _, info := range s.world.truth().table {
		if info.Mountpoint == at {
			id = uint64(info.ID) // the top one, if there are several
		}
	}
	return id
}

// stillThere reports whether the pod of a set-up has been there all the time: one that
// comes back begins anew.
func (s *simulation) stillThere(op operation) bool {
	return op.verb == tearDown || op.verb == unmountDevice || op.verb == detach
}

// check looks at the truth, and at what the manager says of it.
func (s *simulation) check() {
	s.forgetDisturbed()
	s.checkMounts()
	s.checkRecords()
	s.checkOnePodOnly()
	s.checkWaiting()
	s.checkGone()
	s.checkInUse()
	s.checkKept()
}

// forgetDisturbed: once it has looked the manager knows what was taken away or replaced.
func (s *simulation) forgetDisturbed() {
	looked := !s.loop.hasTableChanged() && len(s.pending) == 0
	for target := range s.disturbed {
		if looked {
			delete(s.disturbed, target)
		}
	}
}

// checkMounts: there is one in each place, of what belongs there, and none that is to be
// read-only can be written to.
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
		if life := lifeOf(info); life != "" && !isLife(life, dir.name) {
			s.fail("%s is in %s", life, simPath(dir))
		}
		if s.isReadOnlyIn(dir) && info.Flags&mount.ReadOnly == 0 && lifeOf(info) != "" {
			s.fail("%s can be written to, and is to be read-only", simPath(dir))
		}
	}
}

// isReadOnlyIn reports whether the pod has asked for its volume so.
func (s *simulation) isReadOnlyIn(dir podDir) bool {
	pod := s.all[dir.pod]
	if pod == nil {
		return false
	}
	use := usesIn(pod)[dir.name]
	return use.readOnly || use.readOnlyMount
}

// checkRecords: after a crash nobody else knows of what is attached, or there for all
// pods.
func (s *simulation) checkRecords() {
	t := s.world.truth()
	for _, vol := range simVolumes {
		isThere := s.world.attached[vol] != "" || lifeOf(t.device[vol]) != "" || t.staged[vol] != ""
		if s.world.tree[simRecordPaths[vol]] == nil && isThere {
			s.fail("%s is there, and has no record", vol)
		}
	}
}

func (s *simulation) checkOnePodOnly() {
	for _, vol := range simVolumes {
		if users := s.world.users(vol); needs(vol, "o") && len(users) > 1 {
			s.fail("%s is for one pod, and in %d", vol, len(users))
		}
	}
}

var simAskOnce = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// checkWaiting: who waits for a pod's volumes is told the truth.
func (s *simulation) checkWaiting() {
	m, t := s.loop.Manager, s.world.truth()
	for uid, pod := range s.source.pods {
		mounted := m.GetMountedVolumesForPod(uid)
		for _, v := range mounted {
			s.checkUp(t, podDir{uid, simName, v.Spec.Name()})
		}
		if m.want.pods[uid] != pod || m.WaitForAttachAndMount(simAskOnce, pod) != nil {
			continue
		}
		if len(mounted) != len(pod.Spec.Volumes) {
			s.fail("all is said to be up in %s, and then only %d", uid, len(mounted))
		}
		for name := range usesIn(pod) {
			s.checkUp(t, podDir{uid, simName, name})
		}
	}
}

// checkUp: a volume that is said to be up is, and as it was asked for.
func (s *simulation) checkUp(t *simTruth, dir podDir) {
	if s.disturbed[simPath(dir)] {
		return
	}
	if !isLife(t.life(dir), dir.name) {
		s.fail("%s is said to be up in %s, and there is %q", dir.name, dir.pod, t.life(dir))
	}
	if info, ok := t.dirs[dir]; ok && info.Flags&mount.ReadOnly != 0 != s.isReadOnlyIn(dir) {
		s.fail("%s is said to be up in %s: read-only %v", dir.name, dir.pod, !s.isReadOnlyIn(dir))
	}
}

// checkGone: no volume is said to be gone from a pod in which it is, nor all.
func (s *simulation) checkGone() {
	m, t := s.loop.Manager, s.world.truth()
	all := m.WaitForAllPodsUnmount(simAskOnce)
	for _, dir := range slices.AppendSeq(slices.Collect(maps.Keys(t.dirs)), maps.Keys(t.mapped)) {
		if t.life(dir) == "" {
			continue
		}
		pod := &v1.Pod{}
		if pod.UID = dir.pod; m.want.pods[dir.pod] == nil && m.WaitForUnmount(simAskOnce, pod) == nil {
			s.fail("%s is said to be gone from %s", t.life(dir), dir.pod)
		}
		if all == nil {
			s.fail("all is said to be gone, and %s is in %s", t.life(dir), dir.pod)
		}
	}
}

// checkInUse: what is mounted is reported as in use, so that nobody else detaches it. Of
// what a torn record told of nobody knows.
func (s *simulation) checkInUse() {
	inUse := s.loop.GetVolumesInUse()
	for vol := range s.world.attached {
		if s.world.hasMounted(vol) && !s.world.torn[vol] && !slices.Contains(inUse, v1.UniqueVolumeName(simName+"/"+vol)) {
			s.fail("%s is mounted, and not reported as in use", vol)
		}
	}
	for _, vol := range simVolumes {
		if name := v1.UniqueVolumeName(simName + "/" + vol); s.loop.VolumeIsAttached(name) && s.world.attached[vol] == "" {
			s.fail("%s is said to be attached", vol)
		}
	}
}

// checkKept: what others have left is there.
func (s *simulation) checkKept() {
	for _, name := range s.kept {
		if s.world.tree[name] == nil {
			s.fail("%s is not ours, and gone", name)
		}
	}
	csi := &v1.Pod{}
	if csi.UID = types.UID("csi"); len(s.kept) > 1 && s.loop.WaitForUnmount(simAskOnce, csi) == nil {
		s.fail("what is not understood is said to be gone")
	}
}
