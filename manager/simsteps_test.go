package manager

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/reading"
	"github.com/volumekit/volumekit/manager/internal/record"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// simSteps are the steps of the scheduler, with their frequencies.
var simSteps = []struct {
	weight int
	do     func(*simulation)
}{
	{10, (*simulation).deliverPopulation},
	{10, (*simulation).deliverMountCheck},
	{5, (*simulation).deliverScan},
	{3, (*simulation).requestRescan},
	{18, (*simulation).addPod},
	{12, (*simulation).removePod},
	{3, (*simulation).returnPod},
	{40, (*simulation).finishOperation},
	{15, (*simulation).passTime},
	{6, (*simulation).tamperWithMount},
	{4, (*simulation).disturbSource},
	{3, (*simulation).requireRemount},
	{4, (*simulation).killManager},
	{4, (*simulation).toggleServers},
	{3, (*simulation).recreateVolume},
	{3, (*simulation).growVolume},
	{4, (*simulation).makeUnrecognized},
	{5, (*simulation).reportInUse},
	{2, (*simulation).failMountQuery},
	{3, (*simulation).detachVolume},
	{8, (*simulation).bindSubpath},
}

// runStep runs a random step.
func (s *simulation) runStep() {
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
	uid := fmt.Sprintf("p%d.%d", s.IntN(3), s.pods) // names repeat, UIDs do not
	uses := []simUse{s.anyUse()}
	if s.IntN(4) == 0 { // the same volume under another name, perhaps read-only under one of them
		again := uses[0]
		again.readOnly, again.readOnlyMount = s.IntN(2) == 0, s.IntN(4) == 0
		uses = append(uses, again)
	}
	uses = append(uses, s.anyUse())
	s.log("pod %s with %v", uid, uses)
	pod := simPod(uid, uses...)
	s.source.pods[pod.UID], s.allPods[pod.UID] = pod, pod
	for _, use := range uses {
		s.lifeAtStart[naming.PodDir{Pod: pod.UID, Plugin: simName, Name: use.volume}] = s.source.lives[use.volume]
	}
	s.reportChange(Change{Pods: []types.UID{pod.UID}})
}

func (s *simulation) anyUse() simUse {
	vol := s.anyVolume()
	return simUse{volume: vol, readOnly: s.IntN(6) == 0, readOnlyMount: s.IntN(4) == 0, block: lifeNeeds(s.currentLife(vol), "b")}
}

func (s *simulation) removePod() {
	uid := s.anyPod()
	if uid == "" {
		return
	}
	if s.IntN(3) == 0 {
		s.log("pod %s is being deleted", uid)
		ends := s.source.pods[uid].DeepCopy()
		ends.DeletionTimestamp = simDeleted
		s.source.pods[uid] = ends
	} else if s.IntN(2) == 0 {
		s.log("pod %s has ended", uid)
		ended := s.source.pods[uid].DeepCopy()
		ended.Status.Phase = v1.PodSucceeded
		s.source.pods[uid] = ended
	} else {
		s.log("pod %s is gone", uid)
		delete(s.source.pods, uid)
	}
	s.reportChange(Change{Pods: []types.UID{uid}})
}

// returnPod adds a removed pod to the source again.
func (s *simulation) returnPod() {
	var gone []types.UID
	for uid := range s.allPods {
		if s.source.pods[uid] == nil {
			gone = append(gone, uid)
		}
	}
	slices.Sort(gone)
	if uid := anyOf(s, gone); uid != "" && len(s.source.pods) < 5 {
		s.log("pod %s is back", uid)
		s.source.pods[uid] = s.allPods[uid]
		s.reportChange(Change{Pods: []types.UID{uid}})
	}
}

// reportChange reports a change of the source, to which the loop may react late.
func (s *simulation) reportChange(change Change) {
	s.publishChange(change)
	if s.IntN(4) > 0 { // the loop may be notified late
		s.runDueWork()
		s.deliverPopulation()
	}
}

// publishChange makes the source report a change, with or without the names of the objects.
func (s *simulation) publishChange(change Change) {
	switch {
	case !s.isIncremental:
		s.loop.repopulator.isFullDue = true
	case s.isUnspecific:
		s.loop.repopulator.pendingChanges.Add(reading.ChangeSet{Everything: true})
	default:
		s.loop.repopulator.pendingChanges.Add(change.set())
	}
}

// finishOperation delivers the outcome of an operation. One that is never chosen hangs.
func (s *simulation) finishOperation() {
	if len(s.pending) == 0 {
		return
	}
	i := s.IntN(len(s.pending))
	j := s.pending[i]
	if j.done == nil && s.isHanging(j) {
		return
	}
	s.pending = slices.Delete(s.pending, i, i+1)
	s.deliverOutcome(j)
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
	s.log("time passes")
	s.runDueWork()
}

// detachVolume detaches a volume as another program, and starts an attach check. It leaves volumes
// with an in-flight operation alone: the operation's outcome would not be determined.
func (s *simulation) detachVolume() {
	var attached []v1.UniqueVolumeName
	for name := range s.world.attached {
		if !s.loop.schedule.IsBusy(name) {
			attached = append(attached, name)
		}
	}
	slices.Sort(attached)
	name := anyOf(s, attached)
	if name == "" {
		return
	}
	s.log("another program detaches %s", name)
	s.loop.attachments.startChecks(context.Background(), s.now) // a volume seen attached has no delay
	delete(s.world.attached, name)
	s.loop.attachments.startChecks(context.Background(), s.now)
	s.runDueWork()
}

// tamperWithMount unmounts a volume as another process, and may mount another file system there.
func (s *simulation) tamperWithMount() {
	var ours []string
	for _, info := range s.world.truth().table {
		if strings.Contains(info.Mountpoint, "/sim.io~") && lifeOf(info) != "" {
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
	s.unnoticed[target], s.world.tampered[target] = true, true
	s.log("another process unmounts %s", target)
	if s.IntN(3) == 0 {
		s.log("  and mounts another file system there")
		s.requireNoError(s.world.mount(context.Background(), mount.Request{Source: "foreign", FSType: "foreign", Target: target}))
	}
	s.publishTableChange()
	s.runDueWork()
}

func (s *simulation) disturbSource() {
	s.source.isFailing = s.IntN(3) == 0
	change := s.disturbedClaims()
	clear(s.source.unreadable)
	if s.IntN(2) == 0 {
		s.source.unreadable[s.anyVolume()] = true
	}
	if vol := s.anyVolume(); s.IntN(2) == 0 {
		s.log("claim %s is being deleted", vol)
		s.source.deleting[vol] = true
	} else {
		clear(s.source.deleting)
	}
	s.log("the source: fails %v, cannot read %v", s.source.isFailing, s.source.unreadable)
	change.Claims = append(change.Claims, s.disturbedClaims().Claims...)
	s.reportChange(change)
}

// disturbedClaims names the claims that cannot be read, or are being deleted.
func (s *simulation) disturbedClaims() (change Change) {
	for _, claims := range []map[string]bool{s.source.unreadable, s.source.deleting} {
		for name := range claims {
			change.Claims = append(change.Claims, simClaim(name))
		}
	}
	return change
}

func simClaim(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// requireRemount marks the volumes of a pod whose content follows an object for another set-up.
func (s *simulation) requireRemount() {
	pod := s.anyPod()
	s.log("the content of the volumes of pod %s has changed", pod)
	s.loop.MarkRemountRequired(pod)
	for _, w := range s.loop.want.Demands.Get(pod).VolumesOrNone() {
		if needs(w.Key.Name, "r") {
			s.world.renewed[naming.PodDir{Pod: pod, Plugin: w.Volume.Plugin, Name: w.Key.Name}] = false
		}
	}
	s.runDueWork()
}

// killManager kills the manager. An in-flight operation may be done in part or as a whole; its
// outcome is lost.
func (s *simulation) killManager() {
	s.log("SIGKILL")
	for _, j := range s.pending {
		if j.done == nil && s.IntN(2) == 0 && !s.isHanging(j) {
			s.world.fault, s.world.killIn = simFault(s.IntN(int(panicAfter))), s.IntN(8)
			s.log("  %v in flight, fault %d, %d steps", j.Operation, s.world.fault, s.world.killIn)
			j.work()
			s.world.fault, s.world.killIn = noFault, -1
			s.world.resetKernel()
		}
	}
	if records := s.world.tree.below(simRecords); len(records) > 0 && s.IntN(8) == 0 {
		s.truncateRecord(anyOf(s, records))
	}
	s.startManager()
}

// truncateRecord truncates the record of a volume in its current life to half its size. It leaves records of
// other lives whole: only they have the paths of those lives, which another process may have
// unmounted.
func (s *simulation) truncateRecord(file string) {
	node := s.world.tree[file]
	rec, err := record.Parse(path.Base(file), node.data)
	if err != nil {
		return
	}
	for _, vol := range simVolumes {
		if recordPath(simUnique(s.currentLife(vol))) == file && simLife(rec.FullSpec()) == s.currentLife(vol) && s.hasCurrentLifeOnly(vol) {
			s.log("  the record of %s is truncated", vol)
			s.world.torn[vol] = true
			node.data = node.data[:len(node.data)/2]
		}
	}
}

// hasCurrentLifeOnly reports whether the volume is attached, staged and device-mounted only in its
// current life. Parts of another life are found only through the record of that life.
func (s *simulation) hasCurrentLifeOnly(vol string) bool {
	t := s.world.truth()
	there := slices.AppendSeq(slices.Collect(maps.Values(s.world.attached)), maps.Values(t.staged))
	for _, info := range t.device {
		there = append(there, lifeOf(info))
	}
	return !slices.ContainsFunc(there, func(life string) bool { return isLife(life, vol) && life != s.currentLife(vol) })
}

// toggleServers makes a server stop responding, or all servers respond again.
func (s *simulation) toggleServers() {
	if vol := s.anyVolume(); s.IntN(2) == 0 {
		s.log("the server of %s dies", vol)
		s.world.dead[vol] = true
	} else {
		s.log("all servers answer")
		clear(s.world.dead)
	}
	s.world.resetKernel()
}

// recreateVolume edits a volume, or deletes it and creates another of the same name, which may have
// another handle, plugin or mode. In most cases its pods are deleted before.
func (s *simulation) recreateVolume() {
	vol := s.anyVolume()
	if needs(vol, "s") || s.world.torn[vol] {
		return
	}
	now := s.source.lives[vol]
	number := now&(simNewUID-1) | (now/simNewUID+1)*simNewUID
	if s.IntN(2) == 0 {
		number ^= s.IntN(simNewUID)
	}
	if s.IntN(4) == 0 && !needs(vol, "x") { // an edit may restore an earlier specification
		number -= simNewUID
	}
	if needs(vol, "r") || needs(vol, "x") {
		number &^= simOtherMode
	}
	s.source.lives[vol] = number
	s.source.sizes[vol] = 0
	s.log("%s is deleted and recreated, or edited: %s", vol, s.currentLife(vol))
	change := Change{Claims: []types.NamespacedName{simClaim(vol)}, Volumes: []string{vol}}
	if s.IntN(4) > 0 {
		change.Pods = s.removeUsers(vol)
	}
	s.reportChange(change)
}

// removeUsers deletes the pods that were created in an earlier life of the volume.
func (s *simulation) removeUsers(vol string) (gone []types.UID) {
	for _, uid := range slices.Sorted(maps.Keys(s.source.pods)) {
		if life, uses := s.lifeAtStart[naming.PodDir{Pod: uid, Plugin: simName, Name: vol}]; uses && life != s.source.lives[vol] {
			s.log("  pod %s is gone", uid)
			delete(s.source.pods, uid)
			gone = append(gone, uid)
		}
	}
	return gone
}

func (s *simulation) growVolume() {
	vol := anyOf(s, []string{"adx-8", "px-9"})
	s.source.sizes[vol] += 1 + s.Int64N(5)
	s.world.storage[s.currentLife(vol)] = s.source.sizes[vol]
	s.log("%s is larger", vol)
	s.reportChange(Change{Volumes: []string{vol}})
}

// recordExpansion records a reported expansion in the claim's status.
func (s *simulation) recordExpansion(e Expansion) {
	s.log("    expansion of %s from %v to %v, err %v", e.Unique, &e.OldSize, &e.NewSize, e.Err)
	if e.Err == nil {
		s.source.status[simLife(e.Spec)] = e.NewSize.Value()
		s.publishChange(Change{Claims: []types.NamespacedName{simClaim(e.Spec.PersistentVolume.Name)}})
	}
}

// makeUnrecognized makes a plugin fail to recognize a volume at the next reconstruction.
func (s *simulation) makeUnrecognized() {
	if clear(s.world.unrecognized); s.IntN(3) == 0 {
		return
	}
	dirs := slices.SortedFunc(maps.Keys(s.world.truth().dirs), func(a, b naming.PodDir) int { return strings.Compare(simPath(a), simPath(b)) })
	dirs = slices.AppendSeq(dirs, maps.Keys(s.world.truth().mapped))
	slices.SortFunc(dirs, func(a, b naming.PodDir) int { return strings.Compare(simPath(a), simPath(b)) })
	if len(dirs) > 0 {
		dir := anyOf(s, dirs)
		s.log("%s is unrecognized", simPath(dir))
		s.world.unrecognized[dir] = true
	}
}

// reportInUse reports the volumes in use to the cluster.
func (s *simulation) reportInUse() {
	names := s.loop.GetVolumesInUse()
	s.log("reported as in use: %v", names)
	s.reported = map[v1.UniqueVolumeName]bool{}
	for _, name := range names {
		s.reported[name] = true
	}
	s.loop.MarkVolumesAsReportedInUse(names)
	s.runDueWork()
}

// mountQueryFault makes the next query of a mount point fail.
var mountQueryFault = mounttest.Fault{Op: mounttest.OpIsMountPoint, Err: syscall.EIO, Times: 1}

// requestRescan starts a rescan of the directories of pods.
func (s *simulation) requestRescan() {
	s.log("rescan")
	s.loop.restorer.isScanDue = true
	s.runDueWork()
}

// failMountQuery changes the mount table while one query of a mount fails.
func (s *simulation) failMountQuery() {
	s.log("the mount table changes, and one query fails")
	s.world.kernel.Inject(mountQueryFault)
	s.publishTableChange()
	s.runDueWork()
	s.world.resetKernel()
}
