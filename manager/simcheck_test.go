package manager

import (
	"maps"
	"slices"
	"strings"

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
	if until := s.notUntil[op]; until.After(s.now) && s.stillThere(op) {
		s.fail("%v of %s is tried again %v too early", op, op.volume, until.Sub(s.now))
	}
	if isUp(op.verb) || op.verb == expand {
		return
	}
	if !s.source.toldOnce {
		s.fail("%v of %s begins before anybody has said which pods there are", op, op.volume)
	}
	if pod := s.source.told[op.pod.pod]; op.verb == tearDown && pod != nil && !isTerminated(pod) {
		s.fail("%v: pod %s still runs", op, op.pod.pod)
	}
}

// stillThere reports whether the pod of a set-up has been there all the time: one that
// comes back begins anew.
func (s *simulation) stillThere(op operation) bool {
	return op.verb == tearDown || op.verb == unmountDevice || op.verb == detach
}

// check looks at the truth, and at what the manager says of it.
func (s *simulation) check() {
	s.vanished = s.vanished && (s.loop.hasTableChanged() || len(s.pending) > 0)
	s.checkRecords()
	s.checkOnePodOnly()
	s.checkWaiting()
	s.checkInUse()
}

// checkRecords: after a crash nobody else knows of what is attached, or mounted for all
// pods.
func (s *simulation) checkRecords() {
	for _, vol := range simVolumes {
		if _, ok := s.world.files[v1.UniqueVolumeName(simName+"/"+vol)]; !ok && (s.world.attached[vol] || s.world.device[vol]) {
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

// checkWaiting: who waits for a pod's volumes is told the truth.
func (s *simulation) checkWaiting() {
	m := s.loop.Manager
	for _, pod := range s.source.pods {
		m.mu.Lock()
		up, told := len(m.notUp(pod)) == 0, m.want.pods[pod.UID] == pod
		m.mu.Unlock()
		if !up || !told || s.vanished {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if name := v.PersistentVolumeClaim.ClaimName; s.world.dirs[podDir{pod.UID, simName, name}] != name {
				s.fail("%s is said to be up in %s", name, pod.UID)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for dir, vol := range s.world.dirs {
		pod := m.want.pods[dir.pod]
		if vol == notMounted || pod != nil {
			continue
		}
		if left := m.notDown(dir.pod); len(left) == 0 {
			s.fail("%s is said to be gone from %s", vol, dir.pod)
		}
	}
}

// checkInUse: what is in use is reported, so that nobody else detaches it.
func (s *simulation) checkInUse() {
	inUse := s.loop.GetVolumesInUse()
	for vol, attached := range s.world.attached {
		if attached && !slices.Contains(inUse, v1.UniqueVolumeName(simName+"/"+vol)) {
			s.fail("%s is attached, and not reported as in use", vol)
		}
	}
}

// calmDown ends all faults and lets everything end: the world has to become as desired,
// and nothing more to be done.
func (s *simulation) calmDown() {
	s.log("faults end")
	s.calm = true
	s.source.fails = false
	clear(s.source.failing)
	s.loop.populateDue = true
	s.started = 0
	pods := len(s.source.pods)
	if s.answer != nil { // it may tell of others, which come up before they go
		pods += len(s.answer.pods)
	}
	bound := 3 * (len(s.pending) + 6*pods + 4*len(names(s.loop.want.desiredWorld, s.loop.have)) + len(s.world.dirs) + 1)
	for round := 0; len(s.failures) == 0; round++ {
		s.beat()
		for s.answer != nil {
			s.hear()
		}
		for len(s.pending) > 0 {
			j := s.pending[0]
			s.pending = s.pending[1:]
			s.settle(j)
			s.check()
		}
		if s.isIdle() {
			break
		}
		if round > 1000 {
			s.fail("it does not come to rest")
			return
		}
		s.now = s.loop.nextDue(s.now)
	}
	if s.started > bound {
		s.fail("%d operations to come to rest, and %d should do", s.started, bound)
	}
	s.checkEnd()
	s.checkIdle()
}

// isIdle reports whether there is nothing to come but the resync and the refresh.
func (s *simulation) isIdle() bool {
	l := s.loop
	return s.answer == nil && !l.populateDue && len(l.later) == 0 && l.populateDelay.until.IsZero() && !l.hasTableChanged() && l.nextFree(s.now).IsZero()
}

// checkEnd compares what is there with what is wanted.
func (s *simulation) checkEnd() {
	attached, device, dirs := map[string]bool{}, map[string]bool{}, map[podDir]string{}
	once := map[string]bool{}
	for _, uid := range slices.Sorted(maps.Keys(s.source.pods)) {
		pod := s.source.pods[uid]
		for _, v := range pod.Spec.Volumes {
			name := v.PersistentVolumeClaim.ClaimName
			if isTerminated(pod) {
				continue
			}
			attached[name], device[name] = needs(name, "a"), needs(name, "d")
			dir := podDir{uid, simName, name}
			if !needs(name, "o") || s.world.dirs[dir] == name && !once[name] {
				dirs[dir], once[name] = name, true
			}
		}
	}
	for _, vol := range simVolumes {
		wanted := slices.ContainsFunc(slices.Collect(maps.Keys(s.source.pods)), func(uid types.UID) bool {
			return !isTerminated(s.source.pods[uid]) && slices.ContainsFunc(s.source.pods[uid].Spec.Volumes, func(v v1.Volume) bool {
				return v.PersistentVolumeClaim.ClaimName == vol
			})
		})
		if needs(vol, "o") && wanted && !once[vol] {
			s.fail("no pod has got %s", vol)
		}
		if s.world.attached[vol] != attached[vol] || s.world.device[vol] != device[vol] {
			s.fail("%s: attached %v, want %v; mounted for all %v, want %v", vol,
				s.world.attached[vol], attached[vol], s.world.device[vol], device[vol])
		}
		if _, ok := s.world.files[v1.UniqueVolumeName(simName+"/"+vol)]; ok != (attached[vol] || device[vol]) {
			s.fail("%s: there is a record: %v", vol, ok)
		}
	}
	if !maps.Equal(s.world.dirs, dirs) {
		s.fail("mounted: %v, want %v", s.world.dirs, dirs)
	}
}

// checkIdle: where all is as desired nothing is done, whoever looks.
func (s *simulation) checkIdle() {
	s.started = 0
	s.loop.lookAtAll()
	s.loop.rescanDue = true
	s.beat()
	for s.answer != nil {
		s.hear()
	}
	if s.started > 0 && !strings.Contains(s.trace[len(s.trace)-1], "set up") {
		s.fail("something is done though all is as desired")
	}
}
