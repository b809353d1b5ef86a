package local

import (
	"context"
	"errors"
	"slices"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A podVolume is the directory of a volume for a pod.
type podVolume struct {
	plugin *Plugin
	path   string
}

// GetPath returns the path of the volume for the pod.
func (v podVolume) GetPath() string { return v.path }

// GetMetrics measures the file system that contains the directory, which other volumes may
// share.
func (v podVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	return v.plugin.mounts.GetMetrics(ctx, v.path)
}

type mounter struct {
	podVolume
	at       location
	spec     *volume.Spec
	options  []string
	readOnly bool
}

// GetAttributes returns ReadOnly as the specification has it.
func (m *mounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly, Managed: !m.readOnly, SELinuxRelabel: true}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

// SetUpAt implements [volume.Mounter]. The directory must be below the host's root or a target
// directory. If it has another mount, or the volume's with other flags, the error wraps
// [volume.ErrAlreadyMounted] and [mount.ErrMounted].
//
// A volume on a device has to be mounted by MountDevice first; otherwise the error wraps
// [volume.ErrNotMounted].
//
// With FsGroup the files of the volume change owners before the volume is mounted, also for
// a pod that only reads it (MounterArgs.ReadOnly), unless the specification is read-only, or
// pods use the volume already: see [Config.OnOwnerConflict] and [Config.MapGroups]. A failed
// mount does not change the owners back. While the volume is mounted owners are not
// inspected: they are the pod's to change. FsUser has no effect, as in Kubernetes.
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := checkArgs(args); err != nil {
		return err
	}
	if done, err := m.setUpNew(ctx, dir, args); done || err != nil {
		return err
	}
	if !m.at.mayBeDevice {
		return m.setUp(ctx, dir, m.at.path, args)
	}
	v, err := m.plugin.deviceVolume(m.spec)
	if err != nil {
		return err
	}
	node, is, err := v.findNodeInTime(ctx)
	if err != nil {
		return err
	}
	if is {
		return m.setUpDevice(ctx, dir, v, node, args)
	}
	if err := m.checkBindOptions(); err != nil {
		return err
	}
	return m.setUp(ctx, dir, m.at.path, args)
}

// setUpNew creates and binds a new directory for a pod without a group, if no other SetUp has
// an exclusive lock, and reports whether it has. A source that is no directory is left to
// the general way.
func (m *mounter) setUpNew(ctx context.Context, dir string, args volume.MounterArgs) (done bool, err error) {
	if args.FsGroup != nil || m.at.links {
		return false, nil
	}
	release, ok := m.plugin.locks.tryShare(m.at.path)
	if !ok {
		return false, nil
	}
	return m.plugin.mounts.SetUpNew(ctx, dir, m.request(m.at.path, dir, args), release)
}

// setUpDevice binds the mount of MountDevice.
func (m *mounter) setUpDevice(ctx context.Context, dir string, v *deviceVolume, node string, args volume.MounterArgs) error {
	deviceMount, err := m.plugin.pluginPath(mountsDir, v.name)
	if err != nil {
		return err
	}
	return m.plugin.mounts.Exclusively(ctx, deviceMount, func(ctx context.Context, deviceMount string) error {
		at, _, err := m.plugin.mounts.At(ctx, deviceMount)
		if err == nil {
			err = v.checkNode(ctx, at, node)
		}
		if err != nil {
			return err
		}
		if at.Flags&mount.ReadOnly != 0 && !m.readOnly && !args.ReadOnly {
			return v.failed(ErrDeviceReadOnly)
		}
		return m.setUp(ctx, dir, deviceMount, args)
	})
}

// setUp binds a directory. Owners are checked before the mount, and not again while it is
// mounted: then they are the pod's to change.
func (m *mounter) setUp(ctx context.Context, dir, source string, args volume.MounterArgs) error {
	return m.plugin.mounts.Exclusively(ctx, dir, func(ctx context.Context, dir string) error {
		if args.FsGroup == nil {
			if release, ok := m.plugin.locks.tryShare(source); ok {
				defer release()
				return m.plugin.mounts.Mount(ctx, dir, m.request(source, dir, args))
			}
		}
		err := m.plugin.mounts.CheckMounted(ctx, dir)
		switch {
		case err == nil:
			return m.setUpAgain(ctx, dir, source, args)
		case errors.Is(err, volume.ErrNotMounted):
			return m.setUpFirst(ctx, dir, source, args)
		}
		return err
	})
}

// setUpFirst changes the directory to the pod's group, and then mounts it. Between both the
// exclusive lock keeps other SetUps from changing the group.
func (m *mounter) setUpFirst(ctx context.Context, dir, source string, args volume.MounterArgs) error {
	mode := sharedLock
	if args.FsGroup != nil && !m.readOnly {
		mode = exclusiveLock
	}
	at, release, err := m.plugin.lockDir(ctx, source, mode)
	if err != nil {
		return err
	}
	defer release()
	if mode == exclusiveLock {
		if mapped, err := m.setUpMapped(ctx, dir, source, at, args); mapped {
			return err
		}
		if err := m.changeGroup(ctx, dir, source, at, args); err != nil {
			return err
		}
	}
	return m.plugin.mounts.Mount(ctx, dir, m.request(source, dir, args))
}

// lockDir locks a directory until release is called. It returns the place of the directory for
// an exclusive lock.
func (p *Plugin) lockDir(ctx context.Context, dir string, mode lockMode) (at place, release func(), err error) {
	if mode == sharedLock {
		if release, ok := p.locks.tryShare(dir); ok {
			return place{}, release, nil
		}
	}
	view, err := p.table(ctx)
	if err != nil {
		return place{}, nil, err
	}
	locate := func(dir string) place { return placeIn(view, dir) }
	release, err = p.locks.acquire(ctx, dir, locate, mode)
	return locate(dir), release, err
}

// setUpAgain compares the existing mount with the requested one.
func (m *mounter) setUpAgain(ctx context.Context, dir, source string, args volume.MounterArgs) error {
	req := m.request(source, dir, args)
	if args.FsGroup != nil {
		if is, err := m.isMapped(ctx, dir, req); is || err != nil {
			return err
		}
	}
	return m.plugin.mounts.Mount(ctx, dir, req)
}

// checkArgs refuses arguments that a local volume cannot honour.
func checkArgs(args volume.MounterArgs) error {
	if err := volume.ValidateID(field.NewPath("args", "fsGroup"), args.FsGroup); err != nil {
		return err
	}
	return podvolume.RefuseSizeAndLabel("a local volume", args)
}

// request returns the volume's mount request.
func (m *mounter) request(source, dir string, args volume.MounterArgs) mount.Request {
	options := m.options
	if source != m.at.path {
		options = bindOptions(options)
	}
	options = slices.Clone(options)
	if m.readOnly || args.ReadOnly {
		options = append(options, "ro")
	}
	return mount.Request{Source: source, Target: dir, Options: options}
}

// checkOptions refuses options that no mounter accepts: for a directory all but those of a
// bind mount; a path that may be a device can also have options of its file system. SetUp
// refuses options that the mounter's own configuration forbids.
func (m *mounter) checkOptions() error {
	err := m.checkBindOptions()
	if err == nil || !m.at.mayBeDevice {
		return err
	}
	req := m.request(m.at.path, m.path, volume.MounterArgs{})
	req.FSType = defaultFSType
	if _, wrong := req.Parse(mount.Allow{SUID: true, Dev: true, Context: true}); wrong != nil {
		return err
	}
	return nil // SetUp refuses them if the path is a directory
}

func (m *mounter) checkBindOptions() error {
	req := m.request(m.at.path, m.path, volume.MounterArgs{})
	_, err := req.Parse(mount.Allow{SUID: true, Dev: true, Context: true})
	return err
}

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter]. The directory must be below the host's root or a
// target directory. Its parents, which belong to the pod, stay.
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	return u.plugin.mounts.TearDown(ctx, dir)
}
