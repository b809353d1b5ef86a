package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/safepath"
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

// exclusively runs work as the only one for dir, which must be below the host's
// root, and is passed on as it is written shortest.
func (v podVolume) exclusively(ctx context.Context, dir string, work func(dir string) error) error {
	dir, err := v.plugin.belowHost(field.NewPath("dir"), dir)
	if err != nil {
		return err
	}
	unlock, err := v.plugin.locks.Lock(ctx, dir)
	if err != nil {
		return transient(fmt.Errorf("waiting for another operation on %s: %w", dir, err))
	}
	defer unlock()
	return work(dir)
}

type mounter struct {
	podVolume
	source   string
	options  []string
	readOnly bool
}

// GetAttributes says whether the specification is read-only.
func (m *mounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly, SELinuxRelabel: true}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

// SetUpAt implements [volume.Mounter]. The directory must be below the host's
// root. If something else is mounted there, or the volume with other flags, the
// error wraps [volume.ErrAlreadyMounted] and [mount.ErrMounted].
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := checkArgs(args); err != nil {
		return err
	}
	return m.exclusively(ctx, dir, func(dir string) error {
		return m.setUp(ctx, m.request(dir, args))
	})
}

// checkArgs refuses what a pod asks for and would not get.
func checkArgs(args volume.MounterArgs) error {
	for _, arg := range []struct {
		name  string
		given bool
	}{
		{"FsUser", args.FsUser != nil},
		{"FsGroup", args.FsGroup != nil},
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
func (m *mounter) request(dir string, args volume.MounterArgs) mount.Request {
	options := slices.Clone(m.options)
	if m.readOnly || args.ReadOnly {
		options = append(options, "ro")
	}
	return mount.Request{Source: m.source, Target: dir, Options: options}
}

// checkOptions refuses options that no mounter accepts. What the mounter's own
// configuration forbids, SetUp refuses.
func (m *mounter) checkOptions() error {
	req := m.request(m.path, volume.MounterArgs{})
	_, err := req.Parse(mount.Allow{SUID: true, Dev: true})
	return err
}

// setUp makes the directory and mounts. What it made it takes back if the mount
// fails, also if the mounter refuses the request. Parents in which other volumes
// have come up meanwhile stay.
func (m *mounter) setUp(ctx context.Context, req mount.Request) error {
	made, err := safepath.MkdirAll(m.plugin.host.Root(), req.Target, 0o750)
	if err == nil {
		err = m.plugin.config.Mounter.Mount(ctx, req)
	}
	if err == nil || errors.Is(err, mount.ErrUncertain) {
		return classify(err)
	}
	if undo := safepath.RemoveMade(made, req.Target); undo != nil {
		return fmt.Errorf("%w: %w (cleaning up: %w)", volume.ErrUncertain, err, undo)
	}
	return classify(err)
}

// classify says what is true of the volume after the mounter's error.
func classify(err error) error {
	var refused *mount.InputError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mount.ErrUncertain):
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	case errors.Is(err, mount.ErrMounted):
		return fmt.Errorf("%w: %w", volume.ErrAlreadyMounted, err)
	case errors.As(err, &refused), errors.Is(err, errors.ErrUnsupported):
		return err
	default:
		return transient(err)
	}
}

func transient(err error) error { return fmt.Errorf("%w: %w", volume.ErrTransient, err) }

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter]. The directory must be below the
// host's root. Its parents stay: they are the pod's.
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	return u.exclusively(ctx, dir, func(dir string) error {
		return classifyUnmount(util.UnmountMountPoint(ctx, u.plugin.config.Mounter, dir))
	})
}

// classifyUnmount says what is true of the volume after an unmount's error.
func classifyUnmount(err error) error {
	var refused *mount.InputError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mount.ErrUncertain), errors.Is(err, util.ErrPartlyUnmounted):
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	case errors.As(err, &refused):
		return err
	}
	return transient(err)
}
