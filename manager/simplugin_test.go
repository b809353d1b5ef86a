package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	simName    = "sim.io/sim"
	simEscaped = "sim.io~sim"
	simOther   = "sim.io/other"
	simShared  = "/shared/"
)

// simEscape is the name of a plugin in paths.
func simEscape(plugin string) string { return strings.ReplaceAll(plugin, "/", "~") }

// simDevices is where a plugin mounts volumes for all pods, simMaps where their devices are
// mapped, by the names of the persistent volumes.
func simDevices(plugin string) string { return "/plugins/" + simEscape(plugin) + "/mounts/" }
func simMaps(plugin string) string    { return "/plugins/" + simEscape(plugin) + "/volumeDevices/" }

// simPlace returns the place of the shared steps of a volume: a directory without a pod.
func simPlace(plugin, vol string) naming.PodDir { return naming.PodDir{Plugin: plugin, Name: vol} }

func simDevicePath(at naming.PodDir) string { return simDevices(at.Plugin) + at.Name }
func simStagePath(at naming.PodDir) string  { return simMaps(at.Plugin) + at.Name }

// A simPlugin is a plugin that acts on a simWorld. The letters in the name of a persistent
// volume are its traits: see simVolumes.
type simPlugin struct {
	*simWorld
	name string
}

func (p simPlugin) Init(context.Context, volume.VolumeHost) error { return nil }
func (p simPlugin) GetPluginName() string                         { return p.name }
func (p simPlugin) GetVolumeName(spec *volume.Spec) (string, error) {
	return spec.PersistentVolume.Spec.CSI.VolumeHandle, nil
}
func (p simPlugin) CanSupport(spec *volume.Spec) bool {
	return spec.PersistentVolume.Spec.CSI.Driver == p.name
}
func (p simPlugin) CanAttach(_ context.Context, spec *volume.Spec) (bool, error) {
	return needs(spec.Name(), "a"), nil
}
func (p simPlugin) CanDeviceMount(_ context.Context, spec *volume.Spec) (bool, error) {
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

func (p simPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	return simVolume{p.simWorld, naming.PodDir{Pod: pod.UID, Plugin: p.name, Name: spec.Name()}, spec}, nil
}

func (p simPlugin) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	return simVolume{p.simWorld, naming.PodDir{Pod: pod, Plugin: p.name, Name: name}, nil}, nil
}

// ConstructVolumeSpec is called from several goroutines, and changes nothing.
func (p simPlugin) ConstructVolumeSpec(ctx context.Context, name, path string) (volume.ReconstructedVolume, error) {
	if dir, _ := podDirOf(path, "volumes"); p.unrecognized[dir] {
		return volume.ReconstructedVolume{}, errSim
	}
	place, err := p.kernel.Resolve(ctx, path)
	if err != nil {
		return volume.ReconstructedVolume{}, err
	}
	if place.Path != "/" || lifeOf(place.Mount) == "" {
		return volume.ReconstructedVolume{}, volume.ErrNotMounted
	}
	spec := simRecovered(lifeOf(place.Mount))
	spec.ReadOnly = place.Mount.Flags&mount.ReadOnly != 0
	return volume.ReconstructedVolume{Spec: spec}, nil
}

// simError returns an error of the kernel with the kind that volume.KindOf reports.
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

// mountAt creates a directory and mounts there. It removes the directories after a transient
// failure.
func (w *simWorld) mountAt(ctx context.Context, dir string, req mount.Request) error {
	if err := w.mkdirs(dir); err != nil {
		return simError(err)
	}
	req.Target = dir
	err := simError(w.mount(ctx, req))
	if volume.KindOf(err) == volume.Transient {
		w.removeCreated(dir)
	}
	return err
}

// unmountAt is idempotent.
func (w *simWorld) unmountAt(ctx context.Context, dir string) error {
	err := w.unmount(ctx, dir)
	if err = recordstore.IgnoreMissing(err); err == nil {
		err = recordstore.IgnoreMissing(w.rmdir(dir))
	}
	return simError(err)
}

// A simDevice performs the shared steps: attach, device mount, unmount and detach.
type simDevice simPlugin

func (d simDevice) Attach(ctx context.Context, spec *volume.Spec, _ types.NodeName) (string, error) {
	return "", d.call(ctx, func() error {
		name, life := simUnique(simLife(spec)), simLife(spec)
		if was := d.attached[name]; was != "" && was != life {
			d.reportViolation("%s is attached, and %s is attached already", life, was)
		}
		if err := d.step(); err != nil {
			return simError(err)
		}
		d.attached[name] = life
		return nil
	})
}

func (d simDevice) VolumesAreAttached(_ context.Context, specs []*volume.Spec, _ types.NodeName) (map[*volume.Spec]bool, error) {
	attached := map[*volume.Spec]bool{}
	for _, spec := range specs {
		life := simLife(spec)
		attached[spec] = d.attached[simUnique(life)] == life
	}
	return attached, nil
}

func (d simDevice) WaitForAttach(ctx context.Context, spec *volume.Spec, _ string, _ *v1.Pod) (string, error) {
	return "/dev/" + spec.Name(), nil
}

func (d simDevice) Detach(ctx context.Context, req volume.DetachRequest) error {
	return d.call(ctx, func() error {
		name := v1.UniqueVolumeName(d.name + "/" + req.VolumeName)
		if req.Spec != nil && simUnique(simLife(req.Spec)) != name {
			d.reportViolation("%s is detached with the specification of %s", name, simLife(req.Spec))
		}
		if d.hasMounted(name) {
			d.reportViolation("%s is detached while it is mounted, in pods %v", name, d.usersOf(name))
		}
		d.checkSubpaths("detached", func(dir naming.PodDir) bool { return d.isLife(dir, name) })
		if err := d.step(); err != nil {
			return simError(err)
		}
		delete(d.attached, name)
		return nil
	})
}

func (d simDevice) GetDeviceMountPath(spec *volume.Spec) (string, error) {
	return simDevices(d.name) + spec.Name(), nil
}

func (d simDevice) MountDevice(ctx context.Context, spec *volume.Spec, path string, args volume.DeviceMounterArgs) error {
	return d.call(ctx, func() error {
		name, life := spec.Name(), simLife(spec)
		d.checkAttached(spec, "mounted for all pods")
		if needs(name, "a") && args.DevicePath == "" {
			d.reportViolation("%s is mounted for all pods without its device", name)
		}
		if path != simDevices(d.name)+name {
			d.reportViolation("%s is mounted at %q, which is not its path", name, path)
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
	if name, life := spec.Name(), simLife(spec); needs(name, "a") && w.attached[simUnique(life)] != life {
		w.reportViolation("%s is %s, and %q is attached", life, what, w.attached[simUnique(life)])
	}
}

func (d simDevice) UnmountDevice(ctx context.Context, path string) error {
	return d.call(ctx, func() error {
		name, ok := strings.CutPrefix(path, simDevices(d.name))
		if !ok {
			d.reportViolation("unmount of the foreign path %q", path)
		}
		if len(d.usersAt(simPlace(d.name, name), false)) > 0 {
			d.reportViolation("%s is unmounted while pods use it", name)
		}
		d.checkSubpaths("unmounted for all pods", func(dir naming.PodDir) bool { return dir.Plugin == d.name && viewedName(dir) == name })
		err := d.unmountAt(ctx, path)
		if err == nil {
			delete(d.tampered, path)
		}
		return err
	})
}

// GetDeviceMountRefs returns none: the manager knows the users of a volume.
func (p simPlugin) GetDeviceMountRefs(context.Context, string) ([]string, error) { return nil, nil }

// NodeExpand grows a file system.
func (p simPlugin) NodeExpand(ctx context.Context, o volume.NodeResizeOptions) (bool, error) {
	err := p.call(ctx, func() error {
		name, life := o.Spec.Name(), simLife(o.Spec)
		if !p.hasUp(life) && !p.hasVanished(name) {
			p.reportViolation("%s is grown, and up in no pod", life)
		}
		now := p.sizes[life]
		shrinks := needs(name, "d") && o.NewSize.Value() < now // other volumes have a file system for each pod
		if shrinks || o.OldSize.Value() > now || o.NewSize.Value() > 1+p.storage[life] {
			p.reportViolation("%s is grown from %v to %v, and is of %d", life, &o.OldSize, &o.NewSize, now)
		}
		if p.truth().device[simPlace(p.name, name)].Flags&mount.ReadOnly != 0 && !p.tampered[simDevices(p.name)+name] {
			p.reportViolation("%s is grown, and is mounted read-only", life)
		}
		p.checkPaths(o)
		if err := p.step(); err != nil {
			return simError(err)
		}
		p.sizes[life] = max(now, o.NewSize.Value())
		return nil
	})
	return err == nil, err
}

// checkPaths reports a violation if the plugin receives wrong paths of the volume.
func (p simPlugin) checkPaths(o volume.NodeResizeOptions) {
	name, shared := o.Spec.Name(), ""
	if needs(name, "d") {
		shared = simDevices(p.name) + name
	}
	// A volume in an earlier life has no claim: its claim belongs to the current life.
	isClaim := o.Claim == nil && !p.isCurrentLife(simLife(o.Spec)) || o.Claim != nil && o.Claim.Spec.VolumeName == name
	if o.Pod == nil || !isClaim || !strings.Contains(o.VolumePath, "/"+string(o.Pod.UID)+"/") {
		p.reportViolation("%s is grown at %q for the pod %v and its claim %v", name, o.VolumePath, o.Pod, o.Claim)
	}
	if !strings.HasSuffix(o.VolumePath, "/"+name) || o.DeviceMountPath != shared || o.DeviceStagePath != shared {
		p.reportViolation("%s is grown at %q, %q, %q", name, o.VolumePath, o.DeviceMountPath, o.DeviceStagePath)
	}
	if claimed := p.claimSize(simLife(o.Spec)); needs(name, "d") && o.NewSize.Value() <= claimed {
		p.reportViolation("%s is grown to %v, which its claim has already", name, &o.NewSize)
	}
}

// hasUp reports whether that life of a volume is up in a pod.
func (w *simWorld) hasUp(life string) bool {
	return len(w.usersWhere(func(other string) bool { return other == life })) > 0
}

// hasVanished reports whether another process has unmounted the volume in a pod.
func (w *simWorld) hasVanished(vol string) bool {
	for path := range w.tampered {
		if strings.HasSuffix(podvolume.ViewedName(path), "/"+vol) {
			return true
		}
	}
	return false
}

// A simVolume is a volume in a pod.
type simVolume struct {
	*simWorld
	dir  naming.PodDir
	spec *volume.Spec // nil: for a tear-down
}

func simPath(dir naming.PodDir) string {
	return "/pods/" + string(dir.Pod) + "/volumes/" + simEscape(dir.Plugin) + "/" + dir.Name
}

func (v simVolume) GetPath() string                                     { return simPath(v.dir) }
func (v simVolume) GetMetrics(context.Context) (*volume.Metrics, error) { return nil, nil }
func (v simVolume) GetAttributes() volume.Attributes                    { return volume.Attributes{} }
func (v simVolume) TearDownAt(context.Context, string) error            { return nil }

// SetUpAt is for a view, which has a directory of its own.
func (v simVolume) SetUpAt(ctx context.Context, path string, args volume.MounterArgs) error {
	dir, ok := podDirOf(path, "volumes")
	if !ok || !podvolume.IsView(dir.Name) || viewedName(dir) != v.dir.Name {
		v.reportViolation("set-up of %s at %q", v.dir.Name, path)
	}
	v.dir = dir
	return v.SetUp(ctx, args)
}

func (v simVolume) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return v.call(ctx, func() error {
		v.checkAttached(v.spec, "set up")
		v.checkAlone()
		req, err := v.request()
		if err != nil {
			return err
		}
		if needs(v.dir.Name, "d") && !v.spec.IsReadOnly() && v.truth().device[simPlace(v.dir.Plugin, viewedName(v.dir))].Flags&mount.ReadOnly != 0 {
			v.reportViolation("%s is set up for %s for writing, and is mounted read-only", v.dir.Name, v.dir.Pod)
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

// checkAlone reports a violation if a volume for one pod is in another pod.
func (v simVolume) checkAlone() {
	if !needs(v.dir.Name, "o") {
		return
	}
	for _, other := range v.usersOf(simUnique(simLife(v.spec))) {
		if other.Pod != v.dir.Pod {
			v.reportViolation("%s is for one pod, and is in %s and %s", v.dir.Name, other.Pod, v.dir.Pod)
		}
	}
}

// request returns the mount request of the volume in the pod: a bind mount of the device mount
// or of a shared directory, or a file system of its own.
func (v simVolume) request() (mount.Request, error) {
	name, life := viewedName(v.dir), simLife(v.spec)
	place := simPlace(v.dir.Plugin, name)
	switch device := simDevicePath(place); {
	case needs(name, "s"):
		return mount.Request{Source: simShared + name}, nil
	case !needs(name, "d"):
		return mount.Request{Source: "/dev/" + life, FSType: simFSType(name)}, nil
	case lifeOf(v.truth().device[place]) == life:
		return mount.Request{Source: device}, nil
	case !v.tampered[device]:
		v.reportViolation("%s is set up for %s, and %q is mounted for all pods", life, v.dir.Pod, lifeOf(v.truth().device[place]))
	}
	return mount.Request{}, simError(errSim)
}

func (v simVolume) TearDown(ctx context.Context) error {
	return v.call(ctx, func() error {
		v.checkSubpaths("torn down", func(dir naming.PodDir) bool { return dir == v.dir })
		err := v.unmountAt(ctx, v.GetPath())
		if err == nil {
			delete(v.tampered, v.GetPath())
		}
		return err
	})
}
