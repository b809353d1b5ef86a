package flexvolume

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ownership"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A podVolume is the place of a volume in a pod.
type podVolume struct {
	plugin *Plugin
	path   string
}

// GetPath returns the path of the volume for the pod.
func (v podVolume) GetPath() string { return v.path }

// GetMetrics measures the file system of the volume, if the driver has the capability supportsMetrics. Otherwise
// the error wraps [volume.ErrNotSupported].
func (v podVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	p := v.plugin
	if p.host == nil {
		return nil, errNotInitialised
	}
	if err := p.mounts.CheckMounted(ctx, v.path); err != nil {
		return nil, err
	}
	d, err := p.current(ctx)
	switch {
	case err != nil:
		return nil, err
	case !d.SupportsMetrics:
		return nil, fmt.Errorf("measure a volume of driver %s, which has no supportsMetrics: %w", p.config.Driver, volume.ErrNotSupported)
	}
	return p.mounts.GetMetrics(ctx, v.path)
}

func (v podVolume) placementAt(dir string) placement { return placement{v.plugin, dir, "unmount"} }

type mounter struct {
	podVolume
	source source
	pod    *v1.Pod
}

// GetAttributes returns ReadOnly as the specification has it. Managed and SELinuxRelabel are the driver's last answer to
// init, and true before the first one; a read-only volume is never Managed.
func (m *mounter) GetAttributes() volume.Attributes {
	known := capabilities{FSGroup: true, SELinuxRelabel: true}
	if d := m.plugin.ready.Load(); d != nil {
		known = d.capabilities
	}
	return volume.Attributes{
		ReadOnly: m.source.readOnly, Managed: !m.source.readOnly && known.FSGroup, SELinuxRelabel: known.SELinuxRelabel,
	}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

// SetUpAt implements [volume.Mounter]: it calls mount, or else binds the device mount. The directory must be below
// the host's root or a target directory.
//
// A volume that is mounted is set up: the driver's options are not compared. If it was set up with another read-only
// specification the error wraps [volume.ErrAlreadyMounted]. A mount that a kubelet has made becomes read-only if the
// specification is, and otherwise keeps its flags. The volume is read-only if its specification says so. A pod that only reads (MounterArgs.ReadOnly) gets it writable, as with a kubelet, which leaves
// that to the mounts of the containers. FsUser has no effect, as in Kubernetes.
//
// A driver that is not installed is a transient error that wraps [ErrNoDriver]. A device mount that is
// needed and missing is a transient error that wraps [volume.ErrNotMounted].
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) (err error) {
	defer brief.Shorten(&err)
	if err := podvolume.RefuseSizeAndLabel("a Flexvolume", args); err != nil {
		return err
	}
	if err := volume.ValidateID(field.NewPath("args", "fsGroup"), args.FsGroup); err != nil {
		return err
	}
	p := m.plugin
	if _, err := p.mounts.Below(field.NewPath("dir"), dir); err != nil {
		return err
	}
	d, err := p.current(ctx)
	if err != nil {
		return err
	}
	w := mounting{driver: d, readOnly: m.source.readOnly, enforcesReadOnly: true}
	var secrets map[string]string
	var values []string
	w.prepare = func(ctx context.Context) (_ []string, err error) {
		secrets, values, err = p.secretOptions(ctx, m.source, m.pod)
		return values, err
	}
	w.mountAt = func(ctx context.Context, dir string) error {
		options := p.optionsOf(m.source, podOptions(m.pod, args), secrets)
		_, err := p.call(ctx, d, call{operation: "mount", key: dir, args: []string{dir, options}, secrets: values})
		if errors.Is(err, errNotSupported) {
			return m.bindDeviceMount(ctx, dir)
		}
		return err
	}
	if args.FsGroup != nil && !m.source.readOnly && d.FSGroup {
		w.finish = func(ctx context.Context, dir string) error { return p.applyGroup(ctx, dir, args) }
	}
	return m.placementAt(dir).ensureMounted(ctx, w)
}

// bindDeviceMount binds the device mount of the volume.
func (m *mounter) bindDeviceMount(ctx context.Context, dir string) error {
	p := m.plugin
	from := p.deviceMountPath(m.source)
	if err := p.mounts.CheckMounted(ctx, from); err != nil {
		return volume.AsTransient(fmt.Errorf("the driver has no operation mount: %w", err))
	}
	req := mount.Request{Source: from}
	if m.source.readOnly {
		req.Options = []string{"ro"}
	}
	return p.mounts.Mount(ctx, dir, req)
}

// applyGroup gives the files of a mounted volume to the pod's group, unless all of it is read-only. The caller undoes the
// mount after an error, which is uncertain in no case.
func (p *Plugin) applyGroup(ctx context.Context, dir string, args volume.MounterArgs) error {
	o := podvolume.OwnershipOptions(args)
	if decide := p.config.OnUnchanged; decide != nil {
		o.OnUnchanged = func(entry string, err error) error { return decide(ctx, path.Join(dir, entry), err) }
	}
	if _, err := ownership.Apply(ctx, dir, o); err != nil && !errors.Is(err, ownership.ErrReadOnly) {
		return util.Transient(fmt.Errorf("give the volume to group %d: %w", *args.FsGroup, err))
	}
	return nil
}

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter]: it calls unmount if the directory exists, and then removes the mounts that are left.
// The directory must be below the host's root or a target directory.
func (u *unmounter) TearDownAt(ctx context.Context, dir string) (err error) {
	defer brief.Shorten(&err)
	if u.plugin.host == nil {
		return errNotInitialised
	}
	return u.placementAt(dir).ensureUnmounted(ctx)
}
