package manager

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// A podVolume names a volume as its pod does.
type podVolume struct {
	pod  types.UID
	name string // in the pod
}

// A population is the desired state of the world, and what could not be found out.
type population struct {
	desiredWorld
	pods     map[types.UID]*v1.Pod // those that run
	remounts bool                  // some volumes follow something else
	// places says where the volumes of the pods went.
	places map[podVolume]place
	dirs   map[podDir]v1.UniqueVolumeName
	onePod map[storage]v1.UniqueVolumeName // those that are for one pod at a time
	// failed are the volumes that are not in the world because of an error. What
	// their pods have stays as it is.
	failed map[podVolume]error
}

// A podDir names the directory of a pod's volume.
type podDir struct {
	pod          types.UID
	plugin, name string
}

// A place is where a pod's volume is in the world.
type place struct {
	volume v1.UniqueVolumeName
	key    podKey
}

// A populator turns pods into volumes.
type populator struct {
	source  Source
	plugins *volume.VolumePluginMgr
}

// populate is for all pods of the node. It asks the source for claims and the plugins
// what they can do, and mounts nothing.
func (p *populator) populate(ctx context.Context, pods []*v1.Pod) population {
	all := population{
		desiredWorld: desiredWorld{
			populated: true,
			volumes:   map[v1.UniqueVolumeName]*desiredVolume{},
			keep:      map[types.UID]bool{},
		},
		pods:   map[types.UID]*v1.Pod{},
		places: map[podVolume]place{},
		dirs:   map[podDir]v1.UniqueVolumeName{},
		onePod: map[storage]v1.UniqueVolumeName{},
		failed: map[podVolume]error{},
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
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		use, ok := uses[v.Name]
		if !ok {
			continue
		}
		if err := p.addVolume(ctx, all, pod, v, use); err != nil {
			all.failed[podVolume{pod.UID, v.Name}] = err
			all.keep[pod.UID] = true
		}
	}
}

func (p *populator) addVolume(ctx context.Context, all *population, pod *v1.Pod, v *v1.Volume, use use) (err error) {
	defer recovered(&err)
	spec, err := specOf(ctx, p.source, pod, v)
	if err != nil {
		return err
	}
	if err := use.check(spec.IsBlock()); err != nil {
		return err
	}
	plugin, err := p.plugins.FindPluginBySpec(spec)
	if err != nil {
		return err
	}
	name, err := plugin.GetVolumeName(spec)
	if err != nil {
		return err
	}
	traits, err := traitsOf(plugin, spec)
	if err != nil {
		return err
	}
	args, err := argsOf(pod, v)
	if err != nil {
		return err
	}
	size, err := sizeOf(plugin, spec)
	if err != nil {
		return err
	}
	at := place{
		volume: uniqueName(plugin.GetPluginName(), name, traits.oneName(), pod.UID),
		key:    podKey{pod.UID, spec.Name()},
	}
	dir := podDir{pod.UID, plugin.GetPluginName(), spec.Name()}
	if other, ok := all.dirs[dir]; ok && other != at.volume {
		return fmt.Errorf("%w: another volume of the pod has the directory %q already", volume.ErrNotSupported, spec.Name())
	}
	if other := all.podAt(at); other != nil && other.spec.ReadOnly != spec.ReadOnly {
		return fmt.Errorf("%w: volume %q of the pod is the same, and one of them is read-only", volume.ErrNotSupported, short(other.outer))
	}
	all.dirs[dir] = at.volume
	if traits.onePod {
		all.onePod[storage{plugin.GetPluginName(), name}] = at.volume
	}
	all.remounts = all.remounts || traits.remount
	all.places[podVolume{pod.UID, v.Name}] = at
	all.add(at, &desiredVolume{plugin: plugin.GetPluginName(), name: name, spec: spec, traits: traits, size: size},
		&desiredPod{pod: pod, outer: v.Name, spec: spec, args: args, block: spec.IsBlock()})
	return nil
}

// podAt returns what the pod wants of the volume already, or nil.
func (all *population) podAt(at place) *desiredPod {
	return all.volumes[at.volume].podsOrNone()[at.key]
}

// add adds a pod to a volume, which is the one of the first pod that wants it. Two
// names that a pod has for one volume are one.
func (all *population) add(at place, v *desiredVolume, pod *desiredPod) {
	first := all.volumes[at.volume]
	if first == nil {
		v.pods = map[podKey]*desiredPod{}
		all.volumes[at.volume], first = v, v
	}
	if other := first.pods[at.key]; other != nil {
		pod.args.ReadOnly = pod.args.ReadOnly && other.args.ReadOnly
	}
	first.pods[at.key] = pod
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
	if err := checkQuantity("the volume's capacity", &size); err != nil {
		return nil, err
	}
	return &size, nil
}
