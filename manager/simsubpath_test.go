package manager

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"k8s.io/apimachinery/pkg/types"
)

func simSubpaths(pod types.UID) string { return "/pods/" + string(pod) + "/" + subpaths }

// bindSubpath: a container of a pod whose volumes are up gets a part of one.
func (s *simulation) bindSubpath() {
	uid := s.anyPod()
	pod, m := s.source.pods[uid], s.loop.Manager
	if pod == nil || isTerminated(pod) || m.want.pods[uid] != pod || m.WaitForAttachAndMount(simAskOnce, pod) != nil {
		return
	}
	v := anyOf(s, pod.Spec.Volumes)
	dir := podDir{uid, simName, v.PersistentVolumeClaim.ClaimName}
	target := fmt.Sprintf("%s/%s/c/%d", simSubpaths(uid), v.Name, s.IntN(2))
	if lifeOf(s.world.truth().dirs[dir]) == "" || s.world.dead[dir.name] || s.world.isMounted(target) {
		return
	}
	s.log("a container of %s has a part of %s at %s", uid, dir.name, target)
	s.must(s.world.mkdirs(target), s.world.mount(context.Background(), mount.Request{Source: simPath(dir), Target: target}))
	s.world.parts[target] = dir
}

func (w *simWorld) isMounted(target string) bool {
	return slices.ContainsFunc(w.truth().table, func(info mount.Info) bool { return info.Mountpoint == target })
}

// checkParts: nothing is done to a volume of which containers have a part.
func (w *simWorld) checkParts(what string, of func(podDir) bool) {
	for target, dir := range w.parts {
		if of(dir) && w.isMounted(target) {
			w.accuse("%s is %s, and a part of it is mounted at %s", dir.name, what, target)
		}
	}
}

// unmountSubpaths is as that of hostDisk.
func (d simDisk) unmountSubpaths(ctx context.Context, pod types.UID, of func(outer string) bool) error {
	for _, outer := range d.tree.names(simSubpaths(pod)) {
		if !of(outer) {
			continue
		}
		if err := d.removeParts(ctx, simSubpaths(pod)+"/"+outer); err != nil {
			return simError(err)
		}
		_ = d.rmdir(simSubpaths(pod)) // there may be those of others
	}
	return nil
}

// removeParts removes a directory, those in it first, and unmounts what is on them.
func (d simDisk) removeParts(ctx context.Context, dir string) error {
	for _, name := range slices.Backward(append([]string{dir}, d.tree.below(dir)...)) {
		if err := d.unmount(ctx, name); ignoreMissing(err) != nil {
			return err
		}
		if err := ignoreMissing(d.rmdir(name)); err != nil {
			return err
		}
	}
	return nil
}

// checkPartsLeft: at the end there is none of pods that do not run.
func (s *simulation) checkPartsLeft() {
	for _, info := range s.world.truth().table {
		uid, rest, _ := strings.Cut(strings.TrimPrefix(info.Mountpoint, "/pods/"), "/")
		if pod := s.source.pods[types.UID(uid)]; path.Dir(path.Dir(path.Dir(rest))) == subpaths && (pod == nil || isTerminated(pod)) {
			s.fail("%s is left", info.Mountpoint)
		}
	}
}
