package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// simSteps are what can happen, and how often of so many times.
var simSteps = []struct {
	weight int
	do     func(*simulation)
}{
	{10, (*simulation).hear},
	{18, (*simulation).addPod},
	{12, (*simulation).removePod},
	{3, (*simulation).comeBack},
	{40, (*simulation).finishOne},
	{15, (*simulation).passTime},
	{6, (*simulation).takeAway},
	{4, (*simulation).disturbSource},
	{3, (*simulation).remount},
	{4, (*simulation).crash},
	{4, (*simulation).serverDies},
	{3, (*simulation).recreate},
	{3, (*simulation).grow},
	{4, (*simulation).garble},
	{5, (*simulation).report},
	{2, (*simulation).silence},
	{8, (*simulation).bindSubpath},
}

// step does one thing.
func (s *simulation) step() {
	sum := 0
	for _, step := range simSteps {
		sum += step.weight
	}
	n := s.IntN(sum)
	for _, step := range simSteps {
		if n -= step.weight; n < 0 {
			step.do(s)
			return
		}
	}
}

func (s *simulation) addPod() {
	if len(s.source.pods) > 4 {
		return
	}
	s.pods++
	uid := fmt.Sprintf("p%d.%d", s.IntN(3), s.pods) // names come again, UIDs do not
	uses := []simUse{s.anyUse()}
	switch more := s.anyUse(); {
	case more.volume != uses[0].volume:
		uses = append(uses, more)
	case !needs(more.volume, "b"): // the same by another name
		more.readOnly = uses[0].readOnly
		uses = append(uses, more)
	}
	s.log("pod %s with %v", uid, uses)
	pod := simPod(uid, uses...)
	s.source.pods[pod.UID], s.all[pod.UID] = pod, pod
	for _, use := range uses {
		s.born[podDir{pod.UID, simName, use.volume}] = s.source.lives[use.volume]
	}
	s.changed()
}

func (s *simulation) anyUse() simUse {
	return simUse{volume: s.anyVolume(), readOnly: s.IntN(6) == 0, readOnlyMount: s.IntN(4) == 0}
}

func (s *simulation) removePod() {
	uid := s.anyPod()
	if uid == "" {
		return
	}
	if s.IntN(2) == 0 {
		s.log("pod %s has ended", uid)
		ended := s.source.pods[uid].DeepCopy()
		ended.Status.Phase = v1.PodSucceeded
		s.source.pods[uid] = ended
	} else {
		s.log("pod %s is gone", uid)
		delete(s.source.pods, uid)
	}
	s.changed()
}

// comeBack: the source has lost a pod, and has it again.
func (s *simulation) comeBack() {
	var gone []types.UID
	for uid := range s.all {
		if s.source.pods[uid] == nil {
			gone = append(gone, uid)
		}
	}
	slices.Sort(gone)
	if uid := anyOf(s, gone); uid != "" && len(s.source.pods) < 5 {
		s.log("pod %s is there again", uid)
		s.source.pods[uid] = s.all[uid]
		s.changed()
	}
}

func (s *simulation) changed() {
	s.loop.populateDue = true
	if s.IntN(4) > 0 { // the loop may be slow to hear of it
		s.beat()
		s.hear()
	}
}

// finishOne lets an operation that runs end; one that is never chosen hangs.
func (s *simulation) finishOne() {
	if len(s.pending) == 0 {
		return
	}
	i := s.IntN(len(s.pending))
	j := s.pending[i]
	if j.done == nil && s.hangs(j) {
		return
	}
	s.pending = slices.Delete(s.pending, i, i+1)
	s.settle(j)
}

func (s *simulation) passTime() {
	switch s.IntN(8) {
	case 0: // the loop's times never go back where the clock is monotonic
		s.now = s.now.Add(-time.Duration(s.IntN(3600)) * time.Second)
	case 1:
		s.now = s.now.Add(time.Duration(s.IntN(7200)) * time.Second)
	case 2, 3:
		s.now = s.now.Add(time.Duration(s.IntN(1000)) * time.Millisecond)
	case 4, 5:
		s.now = s.now.Add(time.Duration(s.IntN(300)) * time.Second)
	default:
		if at := s.loop.nextDue(s.now); at.After(s.now) {
			s.now = at
		}
	}
	s.log("it is another time")
	s.beat()
}

// takeAway unmounts something behind the manager's back, or mounts something else there.
func (s *simulation) takeAway() {
	var ours []string
	for _, info := range s.world.truth().table {
		if strings.Contains(info.Mountpoint, simEscaped) && lifeOf(info) != "" {
			ours = append(ours, info.Mountpoint)
		}
	}
	slices.Sort(ours)
	if len(ours) == 0 {
		return
	}
	target := anyOf(s, ours)
	if err := s.world.unmount(context.Background(), target); err != nil {
		return // its server is dead
	}
	s.disturbed[target], s.world.tampered[target] = true, true
	s.log("somebody unmounts %s", target)
	if s.IntN(3) == 0 {
		s.log("  and mounts something else there")
		s.must(s.world.mount(context.Background(), mount.Request{Source: "foreign", FSType: "foreign", Target: target}))
	}
	s.tellOfTable()
	s.beat()
}

func (s *simulation) disturbSource() {
	s.source.fails = s.IntN(3) == 0
	clear(s.source.failing)
	if s.IntN(2) == 0 {
		s.source.failing[s.anyVolume()] = true
	}
	s.log("the source: fails %v, cannot read %v", s.source.fails, s.source.failing)
	s.changed()
}

// remount: what some volumes of a pod follow has changed.
func (s *simulation) remount() {
	pod := s.anyPod()
	s.log("what pod %s has follows something else", pod)
	s.loop.MarkRemountRequired(pod)
	for _, at := range s.loop.want.places[pod] {
		if needs(at.key.name, "r") {
			s.world.renewed[podDir{pod, simName, at.key.name}] = false
		}
	}
	s.beat()
}

// crash kills the manager. What runs may have been done, in part or whole, and nobody
// will hear of it.
func (s *simulation) crash() {
	s.log("SIGKILL")
	for _, j := range s.pending {
		if j.done == nil && s.IntN(2) == 0 && !s.hangs(j) {
			s.world.fault, s.world.killIn = simFault(s.IntN(int(panics))), s.IntN(8)
			s.log("  %v was under way, fault %d, %d steps", j.operation, s.world.fault, s.world.killIn)
			j.work()
			s.world.fault, s.world.killIn = works, -1
			s.world.resetKernel()
		}
	}
	if records := s.world.tree.below(simRecords); len(records) > 0 && s.IntN(8) == 0 {
		s.tear(anyOf(s, records))
	}
	s.boot()
}

// tear leaves half of a record.
func (s *simulation) tear(file string) {
	node := s.world.tree[file]
	for _, vol := range simVolumes {
		if simRecordPaths[vol] == file && s.isPresentLife(vol) {
			s.log("  the record of %s is torn", vol)
			s.world.torn[vol] = true
			node.data = node.data[:len(node.data)/2]
		}
	}
}

// isPresentLife reports whether what is there of a volume, for all pods, is of its present
// life: of another nobody could know but by its record.
func (s *simulation) isPresentLife(vol string) bool {
	t := s.world.truth()
	for _, life := range []string{s.world.attached[vol], lifeOf(t.device[vol]), t.staged[vol]} {
		if life != "" && life != s.life(vol) {
			return false
		}
	}
	return true
}

// serverDies, or all that are dead live.
func (s *simulation) serverDies() {
	if vol := s.anyVolume(); s.IntN(2) == 0 {
		s.log("the server of %s dies", vol)
		s.world.dead[vol] = true
	} else {
		s.log("all servers answer")
		clear(s.world.dead)
	}
	s.world.resetKernel()
}

// recreate deletes a volume, and makes one of its name. Mostly its pods have gone before.
func (s *simulation) recreate() {
	vol := s.anyVolume()
	if needs(vol, "s") || s.world.torn[vol] {
		return
	}
	s.log("%s is deleted, and made anew", vol)
	s.source.lives[vol]++
	s.source.sizes[vol] = 0
	if s.IntN(4) > 0 {
		s.removeUsers(vol)
	}
	s.changed()
}

// removeUsers takes away the pods that have come in an earlier life of the volume.
func (s *simulation) removeUsers(vol string) {
	for _, uid := range slices.Sorted(maps.Keys(s.source.pods)) {
		if life, uses := s.born[podDir{uid, simName, vol}]; uses && life < s.source.lives[vol] {
			s.log("  pod %s is gone", uid)
			delete(s.source.pods, uid)
		}
	}
}

func (s *simulation) grow() {
	vol := anyOf(s, []string{"adx-8", "px-9"})
	s.source.sizes[vol] += 1 + s.Int64N(5)
	s.world.storage[s.life(vol)] = s.source.sizes[vol]
	s.log("%s is larger", vol)
	s.changed()
}

// garble: a plugin will not understand what is there, should it be asked.
func (s *simulation) garble() {
	if clear(s.world.garbled); s.IntN(3) == 0 {
		return
	}
	dirs := slices.SortedFunc(maps.Keys(s.world.truth().dirs), func(a, b podDir) int { return strings.Compare(simPath(a), simPath(b)) })
	dirs = slices.AppendSeq(dirs, maps.Keys(s.world.truth().mapped))
	slices.SortFunc(dirs, func(a, b podDir) int { return strings.Compare(simPath(a), simPath(b)) })
	if len(dirs) > 0 {
		dir := anyOf(s, dirs)
		s.log("%s is not understood", simPath(dir))
		s.world.garbled[dir] = true
	}
}

// report tells the cluster what is in use.
func (s *simulation) report() {
	names := s.loop.GetVolumesInUse()
	s.log("reported as in use: %v", names)
	s.reported = map[v1.UniqueVolumeName]bool{}
	for _, name := range names {
		s.reported[name] = true
	}
	s.loop.MarkVolumesAsReportedInUse(names)
	s.beat()
}

// mountSilence: the next question whether something is mounted has no answer.
var mountSilence = mounttest.Fault{Op: mounttest.OpIsMountPoint, Err: syscall.EIO, Times: 1}

// silence: the table has changed, and cannot be looked at.
func (s *simulation) silence() {
	s.world.kernel.Inject(mountSilence)
	s.tellOfTable()
	s.beat()
	s.world.resetKernel()
}
