package populate

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/volumekit/volumekit/manager/internal/ability"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/plugincall"
	"github.com/volumekit/volumekit/manager/internal/podspec"
	"github.com/volumekit/volumekit/manager/internal/reading"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Populator computes the desired state from pods. It is used by one goroutine.
type Populator struct {
	Claims  volume.ClaimReader
	Plugins *volume.VolumePluginMgr
	Node    *v1.Node // with the name and labels that node selectors match
	// Before is the last population. It supplies unchanged volumes, and the specifications of
	// volumes whose read fails.
	Before desired.Population
	// RequeryPlugins queries the plugins again, also for unchanged volumes.
	RequeryPlugins bool
	// ControllerExpands: the requested size of a volume is its capacity, independent of the request of its claim.
	ControllerExpands bool
	// views are the read-only views of the current pod.
	views podvolume.Views
	// ExistingIn returns the volumes that are, or may be, up in a pod. Nil: none are.
	ExistingIn func(pod types.UID) []Existing
}

// Populate returns the population of all pods of the node, and its difference to Before. It
// reads claims and queries plugins, and mounts nothing.
func (p *Populator) Populate(ctx context.Context, pods []*v1.Pod) (desired.Population, desired.Delta) {
	changed := make(map[types.UID]*v1.Pod, len(pods))
	for uid := range p.Before.Demands.Keys() {
		changed[uid] = nil
	}
	for _, pod := range pods {
		changed[pod.UID] = pod
	}
	next, d := p.Update(ctx, changed)
	next.Populated = true
	return next, d
}

// Update returns Before with new demands for some pods, and the difference; a nil pod is gone.
func (p *Populator) Update(ctx context.Context, pods map[types.UID]*v1.Pod) (desired.Population, desired.Delta) {
	changed := make(map[types.UID]*desired.Demand, len(pods))
	for _, uid := range slices.Sorted(maps.Keys(pods)) {
		if changed[uid] = nil; pods[uid] != nil && !podspec.IsTerminated(pods[uid]) {
			changed[uid] = p.DemandOf(ctx, pods[uid])
		}
	}
	return p.Before.With(changed)
}

// DemandOf returns the demand of a pod: the volumes that its containers use, and the unresolved
// ones among them.
func (p *Populator) DemandOf(ctx context.Context, pod *v1.Pod) *desired.Demand {
	d := &desired.Demand{Pod: pod, Refs: p.refsOf(ctx, pod)}
	uses := podspec.UsesOf(pod)
	p.views = podvolume.ViewsOf(pod)
	for _, name := range podspec.MissingOf(pod, uses) {
		d.Failed = append(d.Failed, desired.FailedVolume{Name: name, Err: ErrNoSuchVolume, AwaitsChange: true, IsFinal: IsFinal(ErrNoSuchVolume)})
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		use, ok := uses[v.Name]
		if !ok {
			continue
		}
		if err := p.addVolume(ctx, d, v, use); err != nil {
			d.Failed = append(d.Failed, p.newFailed(naming.PodVolume{Pod: pod.UID, Name: v.Name}, err))
		}
	}
	return d
}

// refsOf returns the claims that the pod uses and the volumes to which they are bound.
func (p *Populator) refsOf(ctx context.Context, pod *v1.Pod) []reading.Ref {
	refs := reading.ClaimRefsIn(pod)
	for _, ref := range refs {
		claim, err := p.Claims.GetPersistentVolumeClaim(ctx, ref.Namespace, ref.Name)
		if err == nil && claim.Spec.VolumeName != "" {
			refs = append(refs, reading.VolumeRef(claim.Spec.VolumeName))
		}
	}
	return refs
}

// addVolume adds a volume to the demand. If the read of its claim fails, or if the claim has
// another volume than the one that is up, it adds the last known volume and returns the error
// as well: the volume stays up, and is unresolved.
func (p *Populator) addVolume(ctx context.Context, d *desired.Demand, v *v1.Volume, use podspec.Use) (err error) {
	defer plugincall.RecoverPanic(&err)
	pod := d.Pod
	spec, claim, unknown := p.specOf(ctx, pod, v)
	if unknown != nil {
		if spec, claim = p.lastSpec(pod, v, unknown); spec == nil {
			return unknown
		}
	} else if old, ok := p.existingForClaim(pod, v, spec); ok {
		if unknown = old.mismatchError(spec); !old.isComplete() {
			return unknown
		}
		spec, claim = old.specFor(pod, v), nil
	}
	spec = p.views.Spec(v, spec)
	if err := p.checkPodEnding(pod, v, spec); err != nil {
		return err
	}
	checkUse := use.CheckFilesystem
	if spec.IsBlock() {
		checkUse = use.CheckBlock
	}
	if err := checkUse(); err != nil {
		return err
	}
	next, ok := p.unchangedVolume(pod, v, spec, claim)
	if !ok {
		if next, err = p.resolveVolume(ctx, pod, v, spec, claim); err != nil {
			return err
		}
	}
	return errors.Join(d.Add(next), unknown)
}

// lastSpec returns the last known specification of the volume. It returns nil if the error is
// definite (not bound, not found), or if the claim, recreated under its name, names another
// volume: then the existing volume is kept but is no longer the claim's.
func (p *Populator) lastSpec(pod *v1.Pod, v *v1.Volume, err error) (*volume.Spec, *v1.PersistentVolumeClaim) {
	last, ok := p.Before.Demands.Get(pod.UID).VolumeNamed(v.Name)
	if !ok || errors.Is(err, ErrNotBound) || volume.IsNotFound(err) || !p.isSameClaim(pod, v) {
		return nil, nil
	}
	var unread *unreadVolume
	if errors.As(err, &unread) && unread.name != last.Pod.Spec.Name() {
		return nil, nil
	}
	return last.Pod.Spec, last.Pod.Claim
}

// isSameClaim reports whether the volume had the same claim in the last population.
func (p *Populator) isSameClaim(pod *v1.Pod, v *v1.Volume) bool {
	return podspec.HasSameClaim(pod, v, p.Before.Pod(pod.UID))
}

// unchangedVolume returns the volume of the last population, if the pod, the specification
// and the claim are the same.
func (p *Populator) unchangedVolume(pod *v1.Pod, v *v1.Volume, spec *volume.Spec, claim *v1.PersistentVolumeClaim) (desired.DemandedVolume, bool) {
	w, ok := p.Before.Demands.Get(pod.UID).VolumeNamed(v.Name)
	if !ok || p.RequeryPlugins || p.Before.Pod(pod.UID) != pod {
		return desired.DemandedVolume{}, false
	}
	return w, *w.Pod.Spec == *spec && w.Pod.Claim == claim
}

// resolveVolume returns the desired state of a volume, as its plugin describes the volume.
func (p *Populator) resolveVolume(ctx context.Context, pod *v1.Pod, v *v1.Volume, spec *volume.Spec, claim *v1.PersistentVolumeClaim) (w desired.DemandedVolume, err error) {
	if err := naming.CheckNames(pod, spec); err != nil {
		return w, err
	}
	plugin, err := p.Plugins.FindPluginBySpec(spec)
	if err != nil {
		return w, err
	}
	name, err := plugin.GetVolumeName(spec)
	if err != nil {
		return w, err
	}
	traits, err := naming.TraitsOf(ctx, plugin, spec)
	if err != nil {
		return w, err
	}
	args, err := podvolume.MounterArgs(pod, v)
	if err != nil {
		return w, err
	}
	size, claimed, err := p.sizesOf(plugin, spec, claim)
	if err != nil {
		return w, err
	}
	key := naming.PodKey{Pod: pod.UID, Name: p.views.DirectoryName(v, spec)}
	w = desired.DemandedVolume{
		Place:  naming.Place{Volume: traits.UniqueName(plugin.GetPluginName(), name, pod.UID), Key: key},
		Volume: &desired.Volume{Plugin: plugin.GetPluginName(), Name: name, Spec: spec, Traits: traits, Size: size, ClaimSize: claimed, DeviceMountPath: ability.DeviceMountPathOf(plugin, spec, traits, pod)},
		Pod:    &desired.Pod{Pod: pod, OuterName: v.Name, Spec: spec, Claim: claim, Args: args, Block: spec.IsBlock()},
	}
	w.Volume.Pods.Set(key, w.Pod)
	return w, nil
}
