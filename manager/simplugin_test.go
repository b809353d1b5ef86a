package manager

import (
	"context"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const simName = "sim.io/sim"

// A simPlugin is a plugin that acts on a simWorld. Persistent volumes say in their names
// what they need: "a" to be attached, "d" a mount for all pods; others are pods' own.
type simPlugin struct{ *simWorld }

func (p simPlugin) Init(volume.VolumeHost) error                    { return nil }
func (p simPlugin) GetPluginName() string                           { return simName }
func (p simPlugin) GetVolumeName(spec *volume.Spec) (string, error) { return spec.Name(), nil }
func (p simPlugin) CanSupport(spec *volume.Spec) bool               { return true }
func (p simPlugin) CanAttach(spec *volume.Spec) (bool, error)       { return needs(spec.Name(), "a"), nil }
func (p simPlugin) CanDeviceMount(spec *volume.Spec) (bool, error) {
	return needs(spec.Name(), "d"), nil
}
func (p simPlugin) RequiresRemount(spec *volume.Spec) bool { return needs(spec.Name(), "r") }
func (p simPlugin) NewAttacher() (volume.Attacher, error)  { return simDevice(p), nil }
func (p simPlugin) NewDetacher() (volume.Detacher, error)  { return simDevice(p), nil }
func (p simPlugin) NewDeviceMounter() (volume.DeviceMounter, error) {
	return simDevice(p), nil
}
func (p simPlugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) {
	return simDevice(p), nil
}

func needs(name, what string) bool { return strings.Contains(strings.Split(name, "-")[0], what) }

func (p simPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	return simVolume{p.simWorld, podDir{pod.UID, simName, spec.Name()}}, nil
}

func (p simPlugin) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	return simVolume{p.simWorld, podDir{pod, simName, name}}, nil
}

func (p simPlugin) ConstructVolumeSpec(_ context.Context, name, path string) (*volume.Spec, error) {
	pod, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if p.dirs[podDir{types.UID(pod), simName, name}] == notMounted {
		return nil, volume.ErrNotMounted
	}
	spec := simSpec(name)
	spec.PersistentVolume.Spec.AccessModes = nil // which are nowhere on disk
	return spec, nil
}

func simSpec(name string) *volume.Spec {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: simName, VolumeHandle: name}
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: name, UID: types.UID(name)}
	if needs(name, "o") {
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	return volume.NewSpecFromPersistentVolume(pv, false)
}

// A simDevice does what is done for all pods.
type simDevice struct{ *simWorld }

func (d simDevice) Attach(ctx context.Context, spec *volume.Spec, _ types.NodeName) (string, error) {
	return "", d.call(ctx, func() error {
		d.attached[spec.Name()] = true
		return nil
	})
}

func (d simDevice) VolumesAreAttached(context.Context, []*volume.Spec, types.NodeName) (map[*volume.Spec]bool, error) {
	return nil, nil
}

func (d simDevice) WaitForAttach(ctx context.Context, spec *volume.Spec, _ string, _ *v1.Pod) (string, error) {
	return "/dev/" + spec.Name(), nil
}

func (d simDevice) Detach(ctx context.Context, name string, _ types.NodeName) error {
	return d.call(ctx, func() error {
		if d.device[name] || len(d.users(name)) > 0 {
			d.violation("%s is detached while it is mounted", name)
		}
		d.attached[name] = false
		return nil
	})
}

func (d simDevice) GetDeviceMountPath(spec *volume.Spec) (string, error) {
	return "/device/" + spec.Name(), nil
}

func (d simDevice) MountDevice(ctx context.Context, spec *volume.Spec, path string, args volume.DeviceMounterArgs) error {
	return d.call(ctx, func() error {
		name := spec.Name()
		switch {
		case needs(name, "a") && !d.attached[name]:
			d.violation("%s is mounted for all pods, and not attached", name)
		case needs(name, "a") && args.DevicePath == "":
			d.violation("%s is mounted for all pods without its device", name)
		}
		d.device[name] = true
		return nil
	})
}

func (d simDevice) UnmountDevice(ctx context.Context, path string) error {
	return d.call(ctx, func() error {
		name := strings.TrimPrefix(path, "/device/")
		if len(d.users(name)) > 0 {
			d.violation("%s is unmounted below its pods", name)
		}
		d.device[name] = false
		return nil
	})
}

// GetDeviceMountRefs leaves it to the manager to know.
func (p simPlugin) GetDeviceMountRefs(context.Context, string) ([]string, error) { return nil, nil }

// A simVolume is a volume in a pod.
type simVolume struct {
	*simWorld
	dir podDir
}

func (v simVolume) GetPath() string                                           { return simPath(v.dir) }
func (v simVolume) GetMetrics(context.Context) (*volume.Metrics, error)       { return nil, nil }
func (v simVolume) GetAttributes() volume.Attributes                          { return volume.Attributes{} }
func (v simVolume) SetUpAt(context.Context, string, volume.MounterArgs) error { return nil }
func (v simVolume) TearDownAt(context.Context, string) error                  { return nil }

func (v simVolume) SetUp(ctx context.Context, _ volume.MounterArgs) error {
	return v.call(ctx, func() error {
		name := v.dir.name
		switch {
		case needs(name, "d") && !v.device[name]:
			v.violation("%s is set up for %s without its mount for all pods", name, v.dir.pod)
		case needs(name, "a") && !v.attached[name]:
			v.violation("%s is set up for %s, and not attached", name, v.dir.pod)
		case needs(name, "o"):
			for _, other := range v.users(name) {
				if other != v.dir {
					v.violation("%s is for one pod, and in %s and %s", name, other.pod, v.dir.pod)
				}
			}
		}
		v.dirs[v.dir] = name
		return nil
	})
}

func (v simVolume) TearDown(ctx context.Context) error {
	return v.call(ctx, func() error {
		delete(v.dirs, v.dir)
		return nil
	})
}

// A simSource tells of pods, or fails to.
type simSource struct {
	pods     map[types.UID]*v1.Pod
	fails    bool                  // to tell of pods
	failing  map[string]bool       // claims that cannot be read
	asked    map[types.UID]*v1.Pod // what it said last
	told     map[types.UID]*v1.Pod // what has been heard of that
	changed  chan struct{}
	toldOnce bool
}

func (s *simSource) Pods(context.Context) ([]*v1.Pod, error) {
	if s.fails {
		return nil, errSim
	}
	s.asked = map[types.UID]*v1.Pod{}
	var pods []*v1.Pod
	for uid, pod := range s.pods {
		s.asked[uid] = pod
		pods = append(pods, pod)
	}
	return pods, nil
}

func (s *simSource) PersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	if s.failing[name] {
		return nil, errSim
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	claim.Spec.VolumeName, claim.Status.Phase = name, v1.ClaimBound
	return claim, nil
}

func (s *simSource) PersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	return simSpec(name).PersistentVolume, nil
}

func (s *simSource) Changed() <-chan struct{} { return s.changed }

func simPod(uid string, claims ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: strings.Split(uid, ".")[0], UID: types.UID(uid)}}
	c := v1.Container{Name: "c"}
	for i, claim := range claims {
		name := fmt.Sprintf("v%d", i)
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name})
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
	pod.Spec.Containers = []v1.Container{c}
	return pod
}
