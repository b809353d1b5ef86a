package manager

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/manager/internal/podspec"
	"github.com/volumekit/volumekit/mount"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// converge ends all faults and delivers all results: the actual state must reach the desired one, and
// then no work may remain.
func (s *simulation) converge() {
	s.log("faults end")
	s.faultsEnded = true
	s.source.isFailing = false
	change := s.disturbedClaims()
	for uid, pod := range s.source.pods {
		if pod.DeletionTimestamp != nil {
			change.Pods = append(change.Pods, uid)
		}
	}
	clear(s.source.unreadable)
	clear(s.source.deleting)
	maps.DeleteFunc(s.source.pods, func(_ types.UID, pod *v1.Pod) bool { return pod.DeletionTimestamp != nil })
	clear(s.world.dead)
	clear(s.world.unrecognized)
	s.world.resetKernel()
	s.removeForeign()
	for _, vol := range simVolumes {
		change.Pods = append(change.Pods, s.removeUsers(vol)...)
	}
	s.publishChange(change)
	s.started = 0
	bound := s.operationLimit()
	for round := 0; len(s.failures) == 0; round++ {
		s.reportInUse()
		s.deliverAll()
		for len(s.pending) > 0 && s.started <= bound {
			j := s.pending[0]
			s.pending = s.pending[1:]
			s.deliverOutcome(j)
			s.checkStates()
		}
		if s.started > bound {
			s.fail("%d operations to reach the desired state, and the limit is %d", s.started, bound)
			return
		}
		if !slices.Equal(slices.Sorted(slices.Values(s.loop.GetVolumesInUse())), slices.Sorted(maps.Keys(s.reported))) {
			continue // the volumes in use have to be reported first
		}
		if s.isIdle() {
			break
		}
		if round > 1000 {
			s.fail("the manager does not become idle")
			return
		}
		s.now = s.loop.nextDue(s.now)
	}
	s.checkEnd()
	s.checkIdle()
}

// removeForeign unmounts the foreign mounts at the places of volumes.
func (s *simulation) removeForeign() {
	for _, info := range s.world.truth().table {
		if info.FSType == "foreign" {
			s.requireNoError(s.world.unmount(context.Background(), info.Mountpoint))
		}
	}
	s.publishTableChange()
}

// operationLimit is three times the number of possible operations.
func (s *simulation) operationLimit() int {
	pods := len(s.source.pods)
	if s.population != nil { // it may have other pods
		pods += len(s.population.pods)
	}
	known := len(planning.VolumeNames(s.loop.want.World, s.loop.have))
	return 3 * (len(s.pending) + 8*pods + 5*known + len(s.world.truth().dirs) + len(s.world.tree.below("/pods")) + 1)
}

// isIdle reports whether only the resync and the refresh are due.
func (s *simulation) isIdle() bool {
	l := s.loop
	return s.population == nil && s.scan == nil && s.mountCheck == nil && !l.repopulator.isFullDue && l.repopulator.changes.IsEmpty() && len(l.replanAt) == 0 && l.repopulator.delay.Until.IsZero() && l.mounts.nextCheck(s.now).IsZero() &&
		l.nextFree(s.now).IsZero() && len(l.attachments.reattached) == 0 && len(l.schedule.Unrecognized[simName]) == 0 && len(l.schedule.Unrecognized[simOther]) == 0
}

// A simDesired is the state that the node has to reach.
type simDesired struct {
	volumes map[string]bool // that a pod needs
	dirs    map[naming.PodDir]string
	onePod  map[string]types.UID // the pod of each volume for one pod at a time
}

func (s *simulation) desiredState() simDesired {
	wish := simDesired{map[string]bool{}, map[naming.PodDir]string{}, map[string]types.UID{}}
	t := s.world.truth()
	for _, uid := range slices.Sorted(maps.Keys(s.source.pods)) {
		if podspec.IsTerminated(s.source.pods[uid]) {
			continue
		}
		for name, use := range usesIn(s.source.pods[uid]) {
			vol := use.volume
			wish.volumes[vol] = true
			dir := naming.PodDir{Pod: uid, Plugin: simPluginOf(s.currentLife(vol)), Name: name}
			if user, taken := wish.onePod[vol]; needs(vol, "o") && (taken && user != uid || t.life(dir) == "") {
				continue
			}
			wish.onePod[vol] = uid
			if !s.waitsForReaders(vol, use) {
				wish.dirs[dir] = s.currentLife(vol)
			}
		}
	}
	return wish
}

// waitsForReaders reports whether the volume is mounted for readers, and a reader still has it.
func (s *simulation) waitsForReaders(vol string, use simUse) bool {
	if use.readOnly || !lifeNeeds(s.currentLife(vol), "d") || s.deviceOf(vol).Flags&mount.ReadOnly == 0 {
		return false
	}
	for _, pod := range s.source.pods {
		for _, use := range usesIn(pod) {
			if use.volume == vol && use.readOnly && !podspec.IsTerminated(pod) {
				return true
			}
		}
	}
	return false
}

// currentLife returns the current life of a volume.
func (s *simulation) currentLife(vol string) string {
	return simLifeText(vol, s.source.lives[vol])
}

// deviceOf returns the device mount of the present life of a volume.
func (s *simulation) deviceOf(vol string) mount.Info {
	return s.world.truth().device[simPlace(simPluginOf(s.currentLife(vol)), vol)]
}

// checkEnd compares the true state with the desired one.
func (s *simulation) checkEnd() {
	wish, t := s.desiredState(), s.world.truth()
	for _, vol := range simVolumes {
		s.checkVolume(wish, vol)
	}
	up := maps.Clone(t.mapped)
	for dir, info := range t.dirs {
		up[dir] = lifeOf(info)
		if s.isReadOnlyIn(dir) != (info.Flags&mount.ReadOnly != 0) {
			s.fail("%s is %v", simPath(dir), info.Flags)
		}
	}
	if !maps.Equal(up, wish.dirs) {
		s.fail("up: %v, want %v", up, wish.dirs)
	}
	for dir := range wish.dirs {
		if renewed, ok := s.world.renewed[dir]; ok && !renewed {
			s.fail("%s was not set up again", simPath(dir))
		}
	}
	s.checkLeaks(wish)
	s.checkSubpathsLeft()
}

// checkVolume checks the attachment and the device mount of a volume.
func (s *simulation) checkVolume(wish simDesired, vol string) {
	w, t := s.world, s.world.truth()
	if w.torn[vol] { // an unknown volume stays
		return
	}
	if _, ok := wish.onePod[vol]; wish.volumes[vol] && !ok {
		s.fail("no pod has %s", vol)
	}
	life := s.currentLife(vol)
	want := func(need string, is bool) string {
		if wish.volumes[vol] && lifeNeeds(life, need) && is {
			return life
		}
		return ""
	}
	for _, unique := range simUniques(vol) {
		is := unique == simUnique(life)
		if w.attached[unique] != want("a", is) {
			s.fail("%s: attached %q, want %q", unique, w.attached[unique], want("a", is))
		}
		shared := want("a", is) != "" || want("d", is) != "" || want("b", is) != ""
		if recorded := w.tree[recordPath(unique)] != nil; recorded != shared {
			s.fail("%s: record exists: %v", unique, recorded)
		}
	}
	for _, plugin := range []string{simName, simOther} {
		at, is := simPlace(plugin, vol), plugin == simPluginOf(life)
		if lifeOf(t.device[at]) != want("d", is) || t.staged[at] != want("b", is) {
			s.fail("%s: mounted for all %q, want %q; staged %q, want %q", vol, lifeOf(t.device[at]), want("d", is), t.staged[at], want("b", is))
		}
	}
	if now, should := w.sizes[s.currentLife(vol)], 1+s.source.sizes[vol]; needs(vol, "x") && s.isWrittenTo(vol) && now != should {
		s.fail("%s has size %d, want %d", vol, now, should)
	}
}

// isWrittenTo reports whether a pod needs the volume for writing, and need not wait for readers.
func (s *simulation) isWrittenTo(vol string) bool {
	for _, pod := range s.source.pods {
		if use, ok := usesIn(pod)[vol]; ok && !podspec.IsTerminated(pod) && !use.readOnly && !s.waitsForReaders(vol, use) {
			return true
		}
	}
	return false
}

// checkLeaks fails if files of an undesired volume are left.
func (s *simulation) checkLeaks(wish simDesired) {
	wanted := map[string]bool{}
	for uid, pod := range s.source.pods {
		wanted[simSubpaths(uid)] = !podspec.IsTerminated(pod)
		for name, use := range usesIn(pod) {
			life := s.currentLife(use.volume)
			dir := naming.PodDir{Pod: uid, Plugin: simPluginOf(life), Name: name}
			wanted[simPath(dir)] = !podspec.IsTerminated(pod) && !lifeNeeds(life, "b")
			wanted[simMapPath(dir)] = !podspec.IsTerminated(pod) && lifeNeeds(life, "b")
		}
	}
	for vol := range wish.volumes {
		at := simPlace(simPluginOf(s.currentLife(vol)), vol)
		wanted[simDevicePath(at)] = lifeNeeds(s.currentLife(vol), "d")
		wanted[simStagePath(at)] = lifeNeeds(s.currentLife(vol), "b")
	}
	left := s.world.tree.below("/pods")
	for _, plugin := range []string{simName, simOther} {
		left = slices.Concat(left, s.world.tree.below(path.Clean(simDevices(plugin))), s.world.tree.below(path.Clean(simMaps(plugin))))
	}
	for _, name := range left {
		if !s.isOnPathTo(name, wanted) {
			s.fail("%s is left", name)
		}
	}
}

// isOnPathTo reports whether a path is above, at or below a wanted or a foreign path.
func (s *simulation) isOnPathTo(name string, wanted map[string]bool) bool {
	for path, is := range wanted {
		if is && (name == path || strings.HasPrefix(path, name+"/") || strings.HasPrefix(name, path+"/")) {
			return true
		}
	}
	return slices.ContainsFunc(s.foreignPaths, func(kept string) bool {
		return name == kept || strings.HasPrefix(kept, name+"/")
	}) || slices.ContainsFunc(slices.Collect(maps.Keys(s.world.torn)), func(vol string) bool {
		at := simPlace(simPluginOf(s.currentLife(vol)), vol)
		return name == simDevicePath(at) || strings.HasPrefix(name, simStagePath(at))
	})
}

// checkIdle fails if a resync in the desired state starts an operation.
func (s *simulation) checkIdle() {
	started, steps := s.started, s.world.steps
	s.loop.resyncAll()
	s.runDueWork()
	s.deliverAll()
	if s.started > started || s.world.steps > steps {
		s.fail("a resync in the desired state does work")
	}
}
