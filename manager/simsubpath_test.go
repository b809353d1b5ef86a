package manager

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/manager/internal/hostdisk"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/manager/internal/podspec"
	"github.com/volumekit/volumekit/mount"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func simSubpaths(pod types.UID) string { return "/pods/" + string(pod) + "/" + poddirs.Subpaths }

// bindSubpath mounts a subpath of a volume for a container of a pod whose volumes are up.
func (s *simulation) bindSubpath() {
	uid := s.anyPod()
	pod, m := s.source.pods[uid], s.loop.Manager
	if pod == nil || podspec.IsTerminated(pod) || m.want.Pod(uid) != pod || m.WaitForAttachAndMount(simEndedContext, pod) != nil {
		return
	}
	v := anyOf(s, pod.Spec.Volumes)
	up := m.GetMountedVolumesForPod(uid)[v.Name]
	dir := naming.PodDir{Pod: uid, Plugin: up.Plugin, Name: path.Base(up.Path)}
	target := fmt.Sprintf("%s/%s/c/%d", simSubpaths(uid), v.Name, s.IntN(2))
	if lifeOf(s.world.truth().dirs[dir]) == "" || s.world.dead[viewedName(dir)] || s.world.isMounted(target) {
		return
	}
	s.log("a container of %s has a subpath of %s at %s", uid, dir.Name, target)
	s.requireNoError(s.world.mkdirs(target), s.world.mount(context.Background(), mount.Request{Source: simPath(dir), Target: target}))
	s.world.subpaths[target] = dir
	runs := pod.DeepCopy()
	runs.Status.Phase = v1.PodRunning
	s.source.pods[uid] = runs
	s.reportChange(Change{Pods: []types.UID{uid}})
}

func (w *simWorld) isMounted(target string) bool {
	return slices.ContainsFunc(w.truth().table, func(info mount.Info) bool { return info.Mountpoint == target })
}

// checkSubpaths reports a violation for each selected volume that has a mounted subpath.
func (w *simWorld) checkSubpaths(what string, of func(naming.PodDir) bool) {
	for target, dir := range w.subpaths {
		if of(dir) && w.isMounted(target) {
			w.reportViolation("%s is %s, and its subpath is mounted at %s", dir.Name, what, target)
		}
	}
}

// UnmountSubpaths unmounts and removes the subpaths as hostdisk.Disk does on a real disk.
func (d simDisk) UnmountSubpaths(ctx context.Context, parts hostdisk.PodSubpaths) error {
	for _, outer := range d.tree.names(simSubpaths(parts.Pod)) {
		if !parts.Of(outer) {
			continue
		}
		if err := d.removeSubpaths(ctx, simSubpaths(parts.Pod)+"/"+outer); err != nil {
			return simError(err)
		}
		_ = d.rmdir(simSubpaths(parts.Pod)) // fails while subpaths of other volumes exist
	}
	return nil
}

// DeviceUse returns DeviceUseUnknown: a simulated device is not a device of this node.
func (d simDisk) DeviceUse(context.Context, string) (hostdisk.DeviceUse, error) {
	return hostdisk.DeviceUseUnknown, nil
}

// removeSubpaths unmounts and removes a directory and all directories in it, the innermost first.
func (d simDisk) removeSubpaths(ctx context.Context, dir string) error {
	for _, name := range slices.Backward(append([]string{dir}, d.tree.below(dir)...)) {
		if err := d.unmount(ctx, name); recordstore.IgnoreMissing(err) != nil {
			return err
		}
		if err := recordstore.IgnoreMissing(d.rmdir(name)); err != nil {
			return err
		}
	}
	return nil
}

// checkSubpathsLeft fails if subpaths of pods that do not run are left.
func (s *simulation) checkSubpathsLeft() {
	for _, info := range s.world.truth().table {
		uid, rest, _ := strings.Cut(strings.TrimPrefix(info.Mountpoint, "/pods/"), "/")
		if pod := s.source.pods[types.UID(uid)]; path.Dir(path.Dir(path.Dir(rest))) == poddirs.Subpaths && (pod == nil || podspec.IsTerminated(pod)) {
			s.fail("%s is left", info.Mountpoint)
		}
	}
}
