package node_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Durations after the end of the faults.
const (
	simCalm = 10 * time.Minute // all is as desired
	simIdle = time.Hour        // and stays so
)

// calmDown ends all faults, and compares the node with the desired state.
func (s *simulation) calmDown() {
	s.endFaults()
	s.settle(s.differences)
	if !s.hasFailed() {
		s.wait(simCalm) // late events of the faults come
		s.settle(s.differences)
	}
	s.checkIdle()
	writes, inUse := s.nodeWrites.Load(), s.volumesInUse()
	s.endPods()
	s.settle(s.differences)
	if writes = s.nodeWrites.Load() - writes; writes > int64(len(inUse)) {
		s.fail("%d writes of the node after %d volumes", writes, len(inUse))
	}
	s.checkDisks()
	s.checkRestart()
}

// checkRestart checks that the program removes the last directories of pods when it starts again.
func (s *simulation) checkRestart() {
	s.node.crash()
	s.node.start(s.connect())
	s.settle(func() []string {
		entries, err := os.ReadDir(s.node.root + "/pods")
		if err == nil && len(entries) > 0 {
			return pathsBelow(s.node.root + "/pods")
		}
		return nil
	})
}

// endPods ends and removes all pods.
func (s *simulation) endPods() {
	s.log("all pods end")
	for _, p := range s.pods {
		if p.containers {
			s.endContainers(p)
		}
		s.removePod(p)
	}
}

// endFaults ends all faults, and all deletions of pods. Pods with a claim that was deleted are removed,
// too: it depends on the time whether they got its volume before.
func (s *simulation) endFaults() {
	for _, end := range s.faults {
		end()
	}
	s.faults = nil
	s.restartCrashed()
	s.endExpansions()
	s.controller.calmDown()
	s.removeClaims()
	for _, p := range s.pods {
		uses := slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
			c := s.claimOf(p.Pod, v)
			return isClaim(v) && (c == nil || c.deleting)
		})
		if uses && !p.deleted {
			s.log("%s is removed with its claim", p.Name)
			s.removePod(p)
		}
		if p.containers && (uses || p.DeletionTimestamp != nil) {
			s.endContainers(p)
		}
	}
	s.removeClaims()
	if s.node.program == nil {
		s.node.start(s.connect())
	}
}

func isClaim(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }

// claimName returns the name of the claim of a volume, or "".
func claimName(p *v1.Pod, v v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return p.Name + "-" + v.Name
	}
	return ""
}

// claimOf returns the claim of a volume if it exists, and belongs to the pod if it is ephemeral.
func (s *simulation) claimOf(p *v1.Pod, v v1.Volume) *simClaim {
	c := s.claimNamed(claimName(p, v))
	if c == nil || v.Ephemeral != nil && (len(c.OwnerReferences) == 0 || c.OwnerReferences[0].UID != p.UID) {
		return nil
	}
	return c
}

// settle waits until there are no differences.
func (s *simulation) settle(differences func() []string) {
	var last []string
	for end := time.Now().Add(simCalm); time.Now().Before(end) && !s.hasFailed(); {
		s.wait(time.Second)
		s.restartCrashed() // a slow call
		s.check()
		if last = differences(); len(last) == 0 {
			return
		}
	}
	if !s.hasFailed() {
		s.fail("after %v: %s", simCalm, strings.Join(last, "; "))
	}
}

// wait lets time pass; in a bubble it also waits until the program is idle.
func (s *simulation) wait(d time.Duration) {
	time.Sleep(d)
	if s.server != nil {
		synctest.Wait()
	}
}

// isDesired reports whether the pod should have its volumes.
func (s *simulation) isDesired(p *simPod) bool {
	return !p.deleted && !p.finished || s.node.hasContainers(p.UID)
}

// isResolvable reports whether a volume of a pod can come up.
func (s *simulation) isResolvable(p *v1.Pod, v v1.Volume) bool {
	switch {
	case isClaim(v):
		c := s.claimOf(p, v)
		return c != nil && c.volume != ""
	case v.ConfigMap != nil, v.Secret != nil:
		return s.valueOf(v) != ""
	}
	return true
}

// isAttached reports whether a volume of a pod is attached, or will be: not for a pod that has finished
// or was deleted before the volume came up.
func (s *simulation) isAttached(p *simPod, v v1.Volume) bool {
	state, _ := s.node.stateOf(p.UID)
	c := s.claimOf(p.Pod, v)
	return c == nil || c.driver == simPlain || s.isWanted(p) || state == simRunning
}

// valueOf returns the present value of the object that a volume shows, "" if it does not exist.
func (s *simulation) valueOf(v v1.Volume) string {
	if values := s.values[contentOf(v)]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// differences returns the differences between the node and the desired state.
func (s *simulation) differences() (all []string) {
	desired, volumes, up := map[types.UID]bool{}, map[string]bool{}, map[string]bool{}
	hasShared := false
	for _, p := range s.pods {
		if s.isDesired(p) {
			desired[p.UID] = true
			all = append(all, s.missing(p)...)
			for _, v := range p.Spec.Volumes {
				if c := s.claimOf(p.Pod, v); c != nil && c.volume != "" {
					volumes[c.volume] = true
					up[c.volume] = up[c.volume] || s.node.program.manager.GetMountedVolumesForPod(p.UID)[v.Name].Name != ""
					hasShared = hasShared || c.driver == simShared && up[c.volume]
				}
			}
		}
	}
	all = append(all, s.leftovers(desired, volumes)...)
	all = append(all, s.recordDifferences(len(volumes), hasShared)...)
	all = append(all, s.attachmentDifferences(volumes)...)
	all = append(all, s.expansionDifferences(up)...)
	if s.server != nil {
		all = append(all, s.watchDifferences()...)
	}
	return all
}

// missing returns the volumes of a pod that are not as desired.
func (s *simulation) missing(p *simPod) (all []string) {
	up := s.node.program.manager.GetMountedVolumesForPod(p.UID)
	complete := p.DeletionTimestamp == nil && !p.finished && !p.deleted
	for _, v := range p.Spec.Volumes {
		name := fmt.Sprintf("volume %s of %s", v.Name, p.Name)
		path, isUp := up[v.Name].Path, up[v.Name].Name != ""
		switch {
		case !s.isResolvable(p.Pod, v), !isUp && !s.isAttached(p, v):
			complete = false
		case !isUp && (!p.deleted || v.Projected == nil): // no token for a deleted pod
			all = append(all, name+" is not up")
		case !isUp || p.deleted && v.Projected != nil:
		case contentOf(v) != "" && s.contentAt(path) != s.valueOf(v):
			all = append(all, fmt.Sprintf("%s has %q, and not %q", name, s.contentAt(path), s.valueOf(v)))
		case v.Projected != nil:
			// A request that fails before the token expires is repeated with the next refresh.
			if until, err := expiry(path); err != nil || time.Since(until) > simRefresh {
				all = append(all, fmt.Sprintf("the token in %s is valid until %v: %v", name, until, err))
			}
		}
	}
	if state, _ := s.node.stateOf(p.UID); complete && p.containers && state != simRunning {
		all = append(all, "the containers of "+p.Name+" have not started")
	}
	return all
}

// leftovers returns the directories and mounts of other pods and volumes.
func (s *simulation) leftovers(desired map[types.UID]bool, volumes map[string]bool) (all []string) {
	entries, err := os.ReadDir(s.node.root + "/pods")
	if err != nil && !os.IsNotExist(err) {
		s.must(err)
	}
	for _, e := range entries {
		// A cancelled set-up may leave an empty directory "volumes", which the next start removes.
		if paths := pathsBelow(s.node.root + "/pods/" + e.Name()); !desired[types.UID(e.Name())] && len(paths) > 2 {
			all = append(all, fmt.Sprint("of pod ", e.Name(), " is left: ", paths))
		}
	}
	for _, target := range s.mountPoints() {
		rest, inPod := strings.CutPrefix(target, s.node.root+"/pods/")
		uid, _, _ := strings.Cut(rest, "/")
		if inPod && !desired[types.UID(uid)] || !inPod && !volumes[filepath.Base(target)] {
			all = append(all, target+" is left")
		}
	}
	return all
}

// recordDifferences compares the number of the manager's records with that of the volumes. Shared
// volumes have records.
func (s *simulation) recordDifferences(volumes int, hasShared bool) []string {
	records, err := filepath.Glob(s.node.root + "/plugins/volumekit.io/manager/volumes/*")
	s.must(err)
	if len(records) > volumes || len(records) == 0 && hasShared {
		return []string{fmt.Sprintf("%d records of %d volumes", len(records), volumes)}
	}
	return nil
}

// pathsBelow returns the paths in a directory.
func pathsBelow(dir string) (paths []string) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		paths = append(paths, strings.TrimPrefix(path, dir))
		return nil
	})
	return paths
}

// watchDifferences compares the open watches with the objects that the pods use.
func (s *simulation) watchDifferences() (all []string) {
	want := map[string]bool{"pods spec.nodeName=" + simNodeName: true, "nodes metadata.name=" + simNodeName: true}
	for _, p := range s.pods {
		if !s.isDesired(p) {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if name := claimName(p.Pod, v); name != "" {
				want["persistentvolumeclaims metadata.name="+name] = true
				if c := s.claimNamed(name); c != nil && c.volume != "" {
					want["persistentvolumes metadata.name="+c.volume] = true
					if disk := s.node.storedDisk(c.volume); disk.driver == simShared && disk.device != "" {
						want["volumeattachments metadata.name="+node.VolumeAttachmentName(simShared, disk.source, simNodeName)] = true
					}
				}
			} else if key := contentOf(v); key != "" {
				kind, name, _ := strings.Cut(key, " ")
				want[kind+"s metadata.name="+name] = true
			}
		}
	}
	for _, w := range s.server.OpenWatches("") {
		name := w.Resource + " " + w.FieldSelector
		if !want[name] {
			all = append(all, name+" is watched, or twice")
		}
		delete(want, name)
	}
	for name := range want {
		all = append(all, name+" is not watched")
	}
	return all
}

// checkIdle checks that in the desired state nothing happens but renewals of watches and tokens.
func (s *simulation) checkIdle() {
	if s.hasFailed() {
		return
	}
	s.server.ForgetCalls()
	before, err := s.node.kernel.List(s.ctx)
	s.must(err)
	s.wait(simIdle)
	watches, tokens := 0, 0
	for _, call := range s.server.Calls(apitest.Call{}) {
		switch {
		case call.Verb == apitest.Watch:
			watches++
		case call.Subresource == "token" && call.Err == nil:
			tokens++
		case call.Subresource == "token" && s.hasDeletedPod():
		default:
			s.fail("an idle program calls %v: %v", call, call.Err)
		}
	}
	// The client requests a watch of at least five minutes.
	if most := len(s.server.OpenWatches("")) * (1 + int(simIdle/(5*time.Minute))); watches > most {
		s.fail("%d calls to watch in %v, and %d should do", watches, simIdle, most)
	}
	if tokens > len(s.pods) {
		s.fail("%d tokens for %d pods in %v", tokens, len(s.pods), simIdle)
	}
	after, err := s.node.kernel.List(s.ctx)
	s.must(err)
	// With the IDs of the mounts. The volume of a token that a deleted pod cannot get is tried again.
	if !s.hasDeletedPod() && !reflect.DeepEqual(before, after) {
		s.fail("the mounts of an idle program change: %v, then %v", before, after)
	}
}

// hasDeletedPod reports whether a pod has containers, and no tokens: the API server lacks it.
func (s *simulation) hasDeletedPod() bool {
	return slices.ContainsFunc(s.pods, func(p *simPod) bool { return p.deleted && s.node.hasContainers(p.UID) })
}

// checkDisks checks that the files of all volumes exist, also of those whose claims were removed.
func (s *simulation) checkDisks() {
	disks, err := os.ReadDir(s.node.disks)
	s.must(err)
	for _, disk := range disks {
		if text, err := os.ReadFile(filepath.Join(s.node.disks, disk.Name(), simData)); err != nil || string(text) != disk.Name() {
			s.fail("the data of %s is lost: %q, %v", disk.Name(), text, err)
		}
	}
}
