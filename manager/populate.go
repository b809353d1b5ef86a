package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// A population is the desired state of the world, and what could not be found out.
type population struct {
	desiredWorld
	pods     map[types.UID]*v1.Pod // those that run
	remounts bool                  // some volumes follow something else
	// places says where the volumes of the pods went.
	places placeMap
	onePod map[storage]v1.UniqueVolumeName // those that are for one pod at a time
	// failed are the volumes of which it cannot be found out what they are. What their
	// pods have stays as it is; those of which it was known before are in the world.
	failed map[podVolume]error
	// asking are those of them of which the source has yet to answer.
	asking map[podVolume]bool
}

// A populator turns pods into volumes.
type populator struct {
	source  claims
	plugins *volume.VolumePluginMgr
	node    node
	// before has what need not be asked again.
	before population
	// last has what was known last, for when nobody answers.
	last population
	// thereFor returns the volume of the claim that is, or may be, up in the pod; nil:
	// none, or it is not known of which claim it is.
	thereFor func(pod types.UID, namespace, claim string) *v1.PersistentVolume
}

// populate is for all pods of the node. It asks the source for claims and the plugins
// what they can do, and mounts nothing.
func (p *populator) populate(ctx context.Context, pods []*v1.Pod) population {
	all := population{
		desiredWorld: desiredWorld{
			populated: true,
			volumes:   make(map[v1.UniqueVolumeName]*desiredVolume, len(p.last.volumes)),
			keep:      map[types.UID]bool{},
		},
		pods:   make(map[types.UID]*v1.Pod, len(pods)),
		places: make(placeMap, len(pods)),
		onePod: map[storage]v1.UniqueVolumeName{},
		failed: map[podVolume]error{},
		asking: map[podVolume]bool{},
	}
	for _, pod := range pods {
		if !isTerminated(pod) {
			all.pods[pod.UID] = pod
			p.addPod(ctx, &all, pod)
		}
	}
	return all
}

func (p *populator) addPod(ctx context.Context, all *population, pod *v1.Pod) {
	uses := usesOf(pod)
	for _, name := range missingOf(pod, uses) {
		all.failed[podVolume{pod.UID, name}] = errNoSuchVolume
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		use, ok := uses[v.Name]
		if !ok {
			continue
		}
		if err := p.addVolume(ctx, all, pod, v, use); err != nil {
			p.fail(all, podVolume{pod.UID, v.Name}, err)
		}
	}
}

// fail notes why it is not known what the volume is. While the source is asked again, it is
// what it was before.
func (p *populator) fail(all *population, at podVolume, err error) {
	if errors.Is(err, errAsking) {
		all.asking[at] = true
		if before := p.last.failed[at]; before != nil {
			err = before
		}
	}
	all.failed[at] = err
	all.keep[at.pod] = true
}

func (p *populator) addVolume(ctx context.Context, all *population, pod *v1.Pod, v *v1.Volume, use use) (err error) {
	defer recovered(&err)
	spec, unknown := specOf(ctx, p.source, p.node, pod, v)
	if unknown != nil {
		if spec = p.lastSpec(pod, v, unknown); spec == nil {
			return unknown
		}
	} else if old := p.boundBefore(pod, v, spec); old != nil {
		unknown = fmt.Errorf("%w: %q, and %q stays until the pod is gone", errRebound, short(spec.Name()), short(old.Name()))
		spec = old
	}
	if err := use.check(spec.IsBlock()); err != nil {
		return err
	}
	next, ok := p.known(pod, v, spec)
	if !ok {
		if next, err = p.ask(pod, v, spec); err != nil {
			return err
		}
	}
	return errors.Join(p.add(all, next), unknown)
}

// lastSpec returns what was behind the volume when that was last known, or nil if the
// error is an answer: then it is known that there is no such thing now. So it is if the
// claim has become another's of its name, and names another volume: what is up is not the
// claim's any more, and only stays until it is known what is.
func (p *populator) lastSpec(pod *v1.Pod, v *v1.Volume, err error) *volume.Spec {
	at, ok := p.last.places.named(podVolume{pod.UID, v.Name})
	if !ok || errors.Is(err, ErrNotBound) || errors.Is(err, fs.ErrNotExist) || !p.isSameClaim(pod, v) {
		return nil
	}
	spec := p.last.podAt(at).spec
	var unread *unreadVolume
	if errors.As(err, &unread) && unread.name != spec.Name() {
		return nil
	}
	return spec
}

// errRebound is not tried again before the source has changed.
var errRebound = errors.New("the claim is bound to another volume now")

// boundBefore returns what the claim was bound to when it was set up for the pod, if that
// is another volume, or nil: what containers may use is not taken from under them.
func (p *populator) boundBefore(pod *v1.Pod, v *v1.Volume, spec *volume.Spec) *volume.Spec {
	claim, readOnly := claimOf(pod, v)
	if claim == "" || p.thereFor == nil {
		return nil
	}
	old := p.thereFor(pod.UID, pod.Namespace, claim)
	if old == nil || old.Name == spec.Name() {
		return nil
	}
	return volume.NewSpecFromPersistentVolume(old, readOnly)
}

// thereFor is that of the populator.
func (m *Manager) thereFor(pod types.UID, namespace, claim string) *v1.PersistentVolume {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.have.dirs[pod] {
		have := m.have.volumes[e.volume]
		if have.spec == nil || have.spec.PersistentVolume == nil || have.spec.PersistentVolume.Spec.ClaimRef == nil {
			continue
		}
		if ref := have.spec.PersistentVolume.Spec.ClaimRef; ref.Namespace == namespace && ref.Name == claim {
			return have.spec.PersistentVolume
		}
	}
	return nil
}

// isSameClaim reports whether the pod had the same claim behind the volume last.
func (p *populator) isSameClaim(pod *v1.Pod, v *v1.Volume) bool {
	last := p.last.pods[pod.UID]
	i := slices.IndexFunc(last.Spec.Volumes, func(other v1.Volume) bool { return other.Name == v.Name })
	name, readOnly := claimOf(pod, v)
	lastName, lastReadOnly := claimOf(last, &last.Spec.Volumes[i])
	return pod.Namespace == last.Namespace && name == lastName && readOnly == lastReadOnly
}

// A wish is what a pod wants of a volume.
type wish struct {
	place
	volume *desiredVolume // without pods, or of before
	pod    *desiredPod
}

// known returns what the pod wanted before, if it and what is behind its volume are the
// same, and the volume was the one of this pod.
func (p *populator) known(pod *v1.Pod, v *v1.Volume, spec *volume.Spec) (wish, bool) {
	at, ok := p.before.places.named(podVolume{pod.UID, v.Name})
	if !ok || p.before.pods[pod.UID] != pod {
		return wish{}, false
	}
	w := wish{at, p.before.volumes[at.volume], p.before.podAt(at)}
	return w, *w.pod.spec == *spec && w.volume.spec == w.pod.spec
}

// ask asks the plugins.
func (p *populator) ask(pod *v1.Pod, v *v1.Volume, spec *volume.Spec) (w wish, err error) {
	if err := checkNames(pod, spec); err != nil {
		return w, err
	}
	plugin, err := p.plugins.FindPluginBySpec(spec)
	if err != nil {
		return w, err
	}
	name, err := plugin.GetVolumeName(spec)
	if err != nil {
		return w, err
	}
	traits, err := traitsOf(plugin, spec)
	if err != nil {
		return w, err
	}
	args, err := util.MounterArgs(pod, v)
	if err != nil {
		return w, err
	}
	size, err := sizeOf(plugin, spec)
	if err != nil {
		return w, err
	}
	return wish{
		place{uniqueName(plugin.GetPluginName(), name, traits.oneName(), pod.UID), podKey{pod.UID, spec.Name()}},
		&desiredVolume{plugin: plugin.GetPluginName(), name: name, spec: spec, traits: traits, size: size},
		&desiredPod{pod: pod, outer: v.Name, spec: spec, args: args, block: spec.IsBlock()},
	}, nil
}

// add adds what the pod wants, unless that is at odds with what it has already.
func (p *populator) add(all *population, w wish) error {
	dir := podDir{w.key.pod, w.volume.plugin, w.key.name}
	if other := all.places.in(dir); other != "" && other != w.place.volume {
		return fmt.Errorf("%w: another volume of the pod has the directory %q already", volume.ErrNotSupported, w.key.name)
	}
	if other := all.podAt(w.place); other != nil && other.spec.ReadOnly != w.pod.spec.ReadOnly {
		return fmt.Errorf("%w: volume %q of the pod is the same, and one of them is read-only", volume.ErrNotSupported, short(other.outer))
	}
	if w.volume.traits.onePod {
		all.onePod[storage{w.volume.plugin, w.volume.name}] = w.place.volume
	}
	all.remounts = all.remounts || w.volume.traits.remount
	all.places.add(w.pod.pod, placed{w.pod.outer, w.volume.plugin, w.place})
	p.join(all, w)
	return nil
}

// join adds a pod to a volume, which is the one of the first pod that wants it. Two
// names that a pod has for one volume are one. A volume that before has is taken as it
// is, and copied to be changed.
func (p *populator) join(all *population, w wish) {
	name, pod := w.place.volume, w.pod
	v := all.volumes[name]
	switch {
	case v == nil && len(w.volume.pods) == 1 && w.volume.pods[0].value == pod:
		all.volumes[name] = w.volume
		return
	case v == nil:
		v = &desiredVolume{plugin: w.volume.plugin, name: w.volume.name, spec: w.volume.spec, traits: w.volume.traits, size: w.volume.size}
	case v == p.before.volumes[name]:
		other := *v
		v, other.pods = &other, slices.Clone(v.pods)
	}
	if v.size == nil && w.volume.size != nil { // the others only read it
		v.size, v.spec = w.volume.size, w.volume.spec
	}
	if other := v.pods.get(w.key); other != nil {
		both := *pod
		both.args.ReadOnly = both.args.ReadOnly && other.args.ReadOnly
		pod = &both
	}
	v.pods.set(w.key, pod)
	all.volumes[name] = v
}

// podAt returns what the pod wants of the volume already, or nil.
func (all *population) podAt(at place) *desiredPod {
	return all.volumes[at.volume].podsOrNone().get(at.key)
}

// sizeOf returns the size that the volume's file system should have, if this node can
// grow it.
func sizeOf(plugin volume.VolumePlugin, spec *volume.Spec) (*resource.Quantity, error) {
	able, ok := volume.As[volume.NodeExpandableVolumePlugin](plugin)
	if !ok || !able.RequiresFSResize() || spec.PersistentVolume == nil || spec.IsReadOnly() {
		return nil, nil
	}
	size, ok := spec.PersistentVolume.Spec.Capacity[v1.ResourceStorage]
	if !ok {
		return nil, nil
	}
	if err := quantity.CheckOf("the volume's capacity", &size); err != nil {
		return nil, err
	}
	return &size, nil
}
