package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	simName    = "sim.io/sim"
	simEscaped = "sim.io~sim"
	simDevices = "/plugins/" + simEscaped + "/mounts/"
	simMaps    = "/plugins/" + simEscaped + "/volumeDevices/"
	simShared  = "/shared/"
)

// A simPlugin is a plugin that acts on a simWorld. Persistent volumes say in their names
// what they need, as simVolumes has it.
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
func (p simPlugin) RequiresFSResize() bool                 { return true }
func (p simPlugin) NewAttacher() (volume.Attacher, error)  { return simDevice(p), nil }
func (p simPlugin) NewDetacher() (volume.Detacher, error)  { return simDevice(p), nil }
func (p simPlugin) NewDeviceMounter() (volume.DeviceMounter, error) {
	return simDevice(p), nil
}
func (p simPlugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) {
	return simDevice(p), nil
}

func needs(name, what string) bool {
	kind, _, _ := strings.Cut(name, "-")
	return strings.Contains(kind, what)
}

func (p simPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	return simVolume{p.simWorld, podDir{pod.UID, simName, spec.Name()}, spec}, nil
}

func (p simPlugin) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	return simVolume{p.simWorld, podDir{pod, simName, name}, nil}, nil
}

// ConstructVolumeSpec is called from several goroutines, and changes nothing.
func (p simPlugin) ConstructVolumeSpec(ctx context.Context, name, path string) (*volume.Spec, error) {
	if dir, _ := podDirOf(path, "volumes"); p.garbled[dir] {
		return nil, errSim
	}
	place, err := p.kernel.Resolve(ctx, path)
	if err != nil {
		return nil, err
	}
	if place.Path != "/" || lifeOf(place.Mount) == "" {
		return nil, volume.ErrNotMounted
	}
	spec := simSpec(name, 0, 0)
	spec.ReadOnly = place.Mount.Flags&mount.ReadOnly != 0
	// The rest is nowhere on disk.
	spec.PersistentVolume.UID, spec.PersistentVolume.Spec.AccessModes = "", nil
	return spec, nil
}

// simSpec is a volume in one of its lives.
func simSpec(name string, life int, size int64) *volume.Spec {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("%s.%d", name, life))}}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: simName, VolumeHandle: name}
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: name, UID: types.UID(name)}
	pv.Spec.VolumeMode = simMode(name)
	if needs(name, "o") {
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	if needs(name, "x") {
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}
	}
	return volume.NewSpecFromPersistentVolume(pv, false)
}

func simMode(name string) *v1.PersistentVolumeMode {
	if !needs(name, "b") {
		return nil
	}
	block := v1.PersistentVolumeBlock
	return &block
}

// simLife is which life of its volume a specification tells of.
func simLife(spec *volume.Spec) string {
	if needs(spec.Name(), "s") { // a directory of this node: it has but one
		return spec.Name()
	}
	return string(spec.PersistentVolume.UID)
}

// simError gives an error of the kernel the kind that volume.KindOf tells.
func simError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mount.ErrMounted):
		return fmt.Errorf("%w: %w", volume.ErrAlreadyMounted, err)
	case errors.Is(err, mount.ErrUncertain):
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	}
	return fmt.Errorf("%w: %w", volume.ErrTransient, err)
}

// mountAt makes a directory and mounts there; what it has made it takes back.
func (w *simWorld) mountAt(ctx context.Context, dir string, req mount.Request) error {
	if err := w.mkdirs(dir); err != nil {
		return simError(err)
	}
	req.Target = dir
	err := simError(w.mount(ctx, req))
	if volume.KindOf(err) == volume.Transient {
		w.unmake(dir)
	}
	return err
}

// unmountAt is idempotent.
func (w *simWorld) unmountAt(ctx context.Context, dir string) error {
	err := w.unmount(ctx, dir)
	if err = ignoreMissing(err); err == nil {
		err = ignoreMissing(w.rmdir(dir))
	}
	return simError(err)
}

// A simDevice does what is done for all pods.
type simDevice struct{ *simWorld }

func (d simDevice) Attach(ctx context.Context, spec *volume.Spec, _ types.NodeName) (string, error) {
	return "", d.call(ctx, func() error {
		name, life := spec.Name(), simLife(spec)
		if was := d.attached[name]; was != "" && was != life {
			d.accuse("%s is attached, and %s still is", life, was)
		}
		if err := d.step(); err != nil {
			return simError(err)
		}
		d.attached[name] = life
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
		if d.hasMounted(name) {
			d.accuse("%s is detached while it is mounted, in pods %v", name, d.users(name))
		}
		d.checkParts("detached", func(dir podDir) bool { return dir.name == name })
		if err := d.step(); err != nil {
			return simError(err)
		}
		delete(d.attached, name)
		return nil
	})
}

func (d simDevice) GetDeviceMountPath(spec *volume.Spec) (string, error) {
	return simDevices + spec.Name(), nil
}

func (d simDevice) MountDevice(ctx context.Context, spec *volume.Spec, path string, args volume.DeviceMounterArgs) error {
	return d.call(ctx, func() error {
		name, life := spec.Name(), simLife(spec)
		d.checkAttached(spec, "mounted for all pods")
		if needs(name, "a") && args.DevicePath == "" {
			d.accuse("%s is mounted for all pods without its device", name)
		}
		if path != simDevices+name {
			d.accuse("%s is to be mounted at %q, which is not its place", name, path)
		}
		req := mount.Request{Source: "/dev/" + life, FSType: simFSType(name)}
		if spec.IsReadOnly() {
			req.Options = []string{"ro"}
		}
		err := d.mountAt(ctx, path, req)
		if err == nil {
			delete(d.tampered, path)
		}
		return err
	})
}

func (w *simWorld) checkAttached(spec *volume.Spec, what string) {
	if name, life := spec.Name(), simLife(spec); needs(name, "a") && w.attached[name] != life {
		w.accuse("%s is %s, and %q is attached", life, what, w.attached[name])
	}
}

func (d simDevice) UnmountDevice(ctx context.Context, path string) error {
	return d.call(ctx, func() error {
		name, ok := strings.CutPrefix(path, simDevices)
		if !ok {
			d.accuse("%q is to be unmounted, which is no place of ours", path)
		}
		if len(d.users(name)) > 0 {
			d.accuse("%s is unmounted below its pods", name)
		}
		d.checkParts("unmounted below its pods", func(dir podDir) bool { return dir.name == name })
		err := d.unmountAt(ctx, path)
		if err == nil {
			delete(d.tampered, path)
		}
		return err
	})
}

// GetDeviceMountRefs leaves it to the manager to know.
func (p simPlugin) GetDeviceMountRefs(context.Context, string) ([]string, error) { return nil, nil }

// NodeExpand grows a file system.
func (p simPlugin) NodeExpand(ctx context.Context, o volume.NodeResizeOptions) (bool, error) {
	err := p.call(ctx, func() error {
		name, life := o.Spec.Name(), simLife(o.Spec)
		if !p.hasUp(life) && !p.hasVanished(name) {
			p.accuse("%s is grown, and up in no pod", life)
		}
		now := p.sizes[life]
		shrinks := needs(name, "d") && o.NewSize.Value() < now // of others each pod has one, and its size
		if shrinks || o.OldSize.Value() > now || o.NewSize.Value() > 1+p.storage[life] {
			p.accuse("%s is grown from %v to %v, and is of %d", life, &o.OldSize, &o.NewSize, now)
		}
		if p.truth().device[name].Flags&mount.ReadOnly != 0 && !p.tampered[simDevices+name] {
			p.accuse("%s is grown, and mounted to be read only", life)
		}
		if err := p.step(); err != nil {
			return simError(err)
		}
		p.sizes[life] = max(now, o.NewSize.Value())
		return nil
	})
	return err == nil, err
}

// hasUp reports whether that life of a volume is up in a pod.
func (w *simWorld) hasUp(life string) bool {
	name, _, _ := strings.Cut(life, ".")
	return slices.ContainsFunc(w.users(name), func(dir podDir) bool { return w.truth().life(dir) == life })
}

// hasVanished reports whether somebody has taken the volume away from a pod.
func (w *simWorld) hasVanished(vol string) bool {
	for path := range w.tampered {
		if strings.HasSuffix(path, "/"+vol) {
			return true
		}
	}
	return false
}

// A simVolume is a volume in a pod.
type simVolume struct {
	*simWorld
	dir  podDir
	spec *volume.Spec // nil: to take it down
}

func simPath(dir podDir) string {
	return "/pods/" + string(dir.pod) + "/volumes/" + simEscaped + "/" + dir.name
}

func (v simVolume) GetPath() string                                           { return simPath(v.dir) }
func (v simVolume) GetMetrics(context.Context) (*volume.Metrics, error)       { return nil, nil }
func (v simVolume) GetAttributes() volume.Attributes                          { return volume.Attributes{} }
func (v simVolume) SetUpAt(context.Context, string, volume.MounterArgs) error { return nil }
func (v simVolume) TearDownAt(context.Context, string) error                  { return nil }

func (v simVolume) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return v.call(ctx, func() error {
		v.checkAttached(v.spec, "set up")
		v.checkAlone()
		req, err := v.request()
		if err != nil {
			return err
		}
		if needs(v.dir.name, "d") && !v.spec.IsReadOnly() && v.truth().device[v.dir.name].Flags&mount.ReadOnly != 0 {
			v.accuse("%s is set up for %s to be written to, and is mounted to be read only", v.dir.name, v.dir.pod)
		}
		if v.spec.IsReadOnly() || args.ReadOnly {
			req.Options = []string{"ro"}
		}
		if err = v.mountAt(ctx, v.GetPath(), req); err == nil {
			delete(v.tampered, v.GetPath())
			v.renewed[v.dir] = true
		}
		return err
	})
}

// checkAlone: one that is for one pod is in no other.
func (v simVolume) checkAlone() {
	if !needs(v.dir.name, "o") {
		return
	}
	for _, other := range v.users(v.dir.name) {
		if other != v.dir {
			v.accuse("%s is for one pod, and in %s and %s", v.dir.name, other.pod, v.dir.pod)
		}
	}
}

// request is for what the pod gets: the mount that is there for all pods, a directory, or
// a file system.
func (v simVolume) request() (mount.Request, error) {
	name, life := v.dir.name, simLife(v.spec)
	switch device := simDevices + name; {
	case needs(name, "s"):
		return mount.Request{Source: simShared + name}, nil
	case !needs(name, "d"):
		return mount.Request{Source: "/dev/" + life, FSType: simFSType(name)}, nil
	case lifeOf(v.truth().device[name]) == life:
		return mount.Request{Source: device}, nil
	case !v.tampered[device]:
		v.accuse("%s is set up for %s without its mount for all pods: there is %q", life, v.dir.pod, lifeOf(v.truth().device[name]))
	}
	return mount.Request{}, simError(errSim)
}

func (v simVolume) TearDown(ctx context.Context) error {
	return v.call(ctx, func() error {
		v.checkParts("taken down", func(dir podDir) bool { return dir == v.dir })
		err := v.unmountAt(ctx, v.GetPath())
		if err == nil {
			delete(v.tampered, v.GetPath())
		}
		return err
	})
}
