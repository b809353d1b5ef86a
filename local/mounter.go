package local

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
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
	flags    []string // the mount options that are flags of a bind mount
	rest     []string // the others, of a file system and for the readers of fstab
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
// a pod that only reads it (MounterArgs.ReadOnly), unless the specification is
// read-only, or the whole file system without the option "rw", or pods use the volume already: see [Config.OnOwnerConflict],
// [Config.OnUnchanged] and [Config.MapGroups]. A failed
// mount does not change the owners back. While the volume is mounted owners are not
// inspected: they are the pod's to change. FsUser has no effect, as in Kubernetes.
//
// With IsRemount a volume stays set up whose directory was removed on the node, whatever is at its
// path by now: its pod keeps the removed one, and the plugin logs a warning.
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := checkArgs(args); err != nil {
		return err
	}
	err := m.setUpAt(ctx, dir, args)
	if err == nil || !args.IsRemount || volume.KindOf(err) == volume.Uncertain || !m.isUpOnRemoved(ctx, dir, args) {
		return err
	}
	m.plugin.config.Logger.Warn("the directory of a volume was removed on the node; the pod keeps the removed one",
		"volume", brief.Name(m.spec.Name()), "path", input.Shorten(m.at.path))
	return nil
}

// isUpOnRemoved reports whether the mount at dir is of a removed directory that was at the volume's
// path, with the requested flags.
func (m *mounter) isUpOnRemoved(ctx context.Context, dir string, args volume.MounterArgs) bool {
	options, err := m.request(m.at.path, dir, args).Parse(allowAll)
	if err != nil {
		return false
	}
	at, view, err := m.plugin.mounts.At(ctx, dir)
	if err != nil || !at.Deleted || !hasOptions(at, options) {
		return false
	}
	for last := range lastPaths(view, at) {
		if last == m.at.path {
			return true
		}
	}
	return false
}

func (m *mounter) setUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	done, err := m.setUpNew(ctx, dir, args)
	if err != nil {
		return err
	}
	if m.at.mayBeDevice && !done {
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
	}
	if len(m.rest) > 0 {
		m.plugin.config.Logger.Debug("mount options without effect on a directory dropped",
			"volume", brief.Name(m.spec.Name()), "options", input.Shorten(strings.Join(m.rest, ",")))
	}
	if done {
		return nil
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
	options := slices.Clone(m.flags)
	if m.readOnly || args.ReadOnly {
		options = append(options, "ro")
	}
	return mount.Request{Source: source, Target: dir, Options: options}
}

// allowAll permits all options: SetUp refuses those that the mounter's own configuration forbids.
var allowAll = mount.Allow{SUID: true, Dev: true, Context: true}

// parseOptions sorts the options of the volume into flags and rest. It refuses options that no
// mounter accepts, and flags that contradict each other or a read-only volume. MountDevice checks
// contradictions between options of a file system, and "errors=panic", which a directory ignores.
func (m *mounter) parseOptions() error {
	all := m.spec.MountOptions()
	for i, option := range all {
		o, err := mount.ParseOptions([]string{option}, allowAll)
		switch {
		case err == nil && o.Set|o.Clear != 0:
			m.flags = append(m.flags, option)
		case err == nil || strings.HasPrefix(option, "errors="):
			m.rest = append(m.rest, option)
			all[i] = "defaults" // so that an error names the others by their places
		}
	}
	if m.readOnly {
		all = append(all, "ro")
	}
	_, err := mount.ParseOptions(all, allowAll)
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
