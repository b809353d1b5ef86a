package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A podVolume is a volume's place for a pod.
type podVolume struct {
	plugin *Plugin
	path   string
}

// GetPath returns the path of the volume for the pod.
func (v podVolume) GetPath() string { return v.path }

// GetMetrics measures the file system that the directory is in, which other
// volumes may share.
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

// GetAttributes says whether the specification is read-only.
func (m *mounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly, Managed: !m.readOnly, SELinuxRelabel: true}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

// SetUpAt implements [volume.Mounter]. The directory must be below the host's
// root. If something else is mounted there, or the volume with other flags, the
// error wraps [volume.ErrAlreadyMounted] and [mount.ErrMounted].
//
// A volume on a device has to be mounted by MountDevice first; if it is not the error
// wraps [volume.ErrNotMounted].
//
// With FsGroup what is in the volume changes owners before it is mounted, also for a pod
// that only reads it (MounterArgs.ReadOnly), unless its specification is read-only, or
// pods use it already: see [Config.OnOwnerConflict] and [Config.MapGroups]. It is not
// changed back if mounting fails, and not looked at while the volume is up: then it is
// the pod's to change. FsUser has no effect, as in Kubernetes.
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := checkArgs(args); err != nil {
		return err
	}
	if !m.at.mayBeDevice {
		return m.setUp(ctx, dir, m.at.path, args)
	}
	v, err := m.plugin.deviceVolume(m.spec)
	if err != nil {
		return err
	}
	var node string
	var is bool
	looked := make(chan error, 1)
	go func() {
		var err error
		node, is, err = v.look()
		looked <- err
	}()
	if err, ok := ctxend.Receive(ctx, looked, 0); !ok {
		return util.Transient(ctxend.Error(ctx))
	} else if err != nil {
		return err
	}
	if is {
		return m.setUpDevice(ctx, dir, v, node, args)
	}
	return m.setUp(ctx, dir, m.at.path, args)
}

// setUpDevice binds what MountDevice has mounted.
func (m *mounter) setUpDevice(ctx context.Context, dir string, v *deviceVolume, node string, args volume.MounterArgs) error {
	shared, err := m.plugin.pluginPath(mountsDir, v.name)
	if err != nil {
		return err
	}
	return m.plugin.mounts.Exclusively(ctx, shared, func(shared string) error {
		at, _, err := m.plugin.mounts.At(ctx, shared)
		if err == nil {
			err = v.checkNode(at, node)
		}
		if err != nil {
			return err
		}
		if at.Flags&mount.ReadOnly != 0 && !m.readOnly && !args.ReadOnly {
			return v.failed(ErrDeviceReadOnly)
		}
		return m.setUp(ctx, dir, shared, args)
	})
}

// setUp binds a directory. Whose it is is looked at before, and not again while it is
// up: then that is the pod's to change.
func (m *mounter) setUp(ctx context.Context, dir, source string, args volume.MounterArgs) error {
	return m.plugin.mounts.Exclusively(ctx, dir, func(dir string) error {
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

// setUpFirst gives the directory to the pod's group before it is mounted. Until then
// nobody else may give it away.
func (m *mounter) setUpFirst(ctx context.Context, dir, source string, args volume.MounterArgs) error {
	gives := args.FsGroup != nil && !m.readOnly
	at, done, err := m.plugin.claim(ctx, source, gives)
	if err != nil {
		return err
	}
	defer done()
	if gives {
		if mapped, err := m.setUpMapped(ctx, dir, source, at, args); mapped {
			return err
		}
		if err := m.giveAway(ctx, dir, source, at, args); err != nil {
			return err
		}
	}
	return m.plugin.mounts.Mount(ctx, dir, m.request(source, dir, args))
}

// claim takes the directory until done is called: alone, and then it says where it is,
// or with others.
func (p *Plugin) claim(ctx context.Context, source string, alone bool) (at place, done func(), err error) {
	if !alone {
		if done, ok := p.owning.share(source); ok {
			return place{}, done, nil
		}
	}
	table, err := p.table(ctx)
	if err != nil {
		return place{}, nil, err
	}
	in := func(dir string) place { return placeIn(table, dir) }
	done, err = p.owning.take(ctx, source, in, alone)
	return in(source), done, err
}

// setUpAgain compares what is up with what is asked for.
func (m *mounter) setUpAgain(ctx context.Context, dir, source string, args volume.MounterArgs) error {
	req := m.request(source, dir, args)
	if args.FsGroup != nil {
		if is, err := m.isMapped(ctx, dir, req); is || err != nil {
			return err
		}
	}
	return m.plugin.mounts.Mount(ctx, dir, req)
}

// checkArgs refuses what a pod asks for and would not get.
func checkArgs(args volume.MounterArgs) error {
	if err := volume.ValidateID(field.NewPath("args", "fsGroup"), args.FsGroup); err != nil {
		return err
	}
	for _, arg := range []struct {
		name  string
		given bool
	}{
		{"DesiredSize", args.DesiredSize != nil},
		{"SELinuxLabel", args.SELinuxLabel != ""},
	} {
		if arg.given {
			return fmt.Errorf("MounterArgs.%s for a local volume: %w", arg.name, volume.ErrNotSupported)
		}
	}
	return nil
}

// request is the mount that the volume needs.
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

// checkOptions refuses options that no mounter accepts: of a directory those of a bind
// mount, of a device those of its file system, too. What the mounter's own
// configuration forbids, SetUp refuses.
func (m *mounter) checkOptions() error {
	req := m.request(m.at.path, m.path, volume.MounterArgs{})
	_, err := req.Parse(mount.Allow{SUID: true, Dev: true, Context: true})
	if err == nil || !m.at.mayBeDevice {
		return err
	}
	req.FSType = defaultFSType
	if _, wrong := req.Parse(mount.Allow{SUID: true, Dev: true, Context: true}); wrong != nil {
		return err
	}
	if _, k, lookErr := m.plugin.follow(m.at); lookErr != nil || k != kindDevice {
		return err
	}
	return nil
}

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter]. The directory must be below the
// host's root. Its parents stay: they are the pod's.
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	return u.plugin.mounts.TearDown(ctx, dir)
}
