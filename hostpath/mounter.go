package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// A podVolume is the path of a volume for a pod.
type podVolume struct {
	plugin *Plugin
	path   string
}

// GetPath returns the path of the volume for the pod, a file if the host path is no
// directory.
func (v podVolume) GetPath() string { return v.path }

// GetMetrics measures the file or directory at the path, see fsusage.Walker, at most every
// ten seconds; Capacity and Available are those of the file system. If ctx leaves too little
// time for a directory the next call continues the walk.
func (v podVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	return v.plugin.mounts.GetCounted(ctx, v.path, v.plugin.walker)
}

type mounter struct {
	podVolume
	source   source
	options  []string
	readOnly bool
}

// GetAttributes returns ReadOnly as the specification has it.
func (m *mounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

// SetUpAt implements [volume.Mounter]. dir must be below the host's root or a target
// directory. If the host path is not of the volume's type the error is a [*TypeError]; if it is
// a device, and the mounter allows no devices, it is a *field.Error that names the type, or the
// path if there is no type, and mount.Config.Allow. If dir has another mount, or the volume's with other flags, the error wraps
// [volume.ErrAlreadyMounted] and [mount.ErrMounted].
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := podvolume.RefuseSizeAndLabel("a path of the host", args); err != nil {
		return err
	}
	return m.plugin.mounts.Exclusively(ctx, dir, func(ctx context.Context, dir string) error {
		return m.setUp(ctx, dir, args)
	})
}

func (m *mounter) setUp(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := context.Cause(ctx); err != nil {
		return util.Transient(err)
	}
	up, err := m.linkedTo(ctx, dir)
	if err != nil {
		return err
	}
	there, err := m.prepare(ctx, m.source.withPath(up))
	if err != nil {
		return err
	}
	defer there.close()
	if up != "" || there.path == m.source.path {
		return m.bind(ctx, dir, args, there)
	}
	return m.bindLinked(ctx, dir, args, there)
}

// bindLinked writes the note of a path with symbolic links, and calls bind.
func (m *mounter) bindLinked(ctx context.Context, dir string, args volume.MounterArgs, there found) error {
	mounted, err := m.isMounted(ctx, dir)
	if err != nil {
		return err
	}
	if mounted { // through another path, and maybe for another volume
		return m.bind(ctx, dir, args, there)
	}
	if err := m.plugin.writeNote(ctx, dir, linkNote{m.source.path, there.path}); err != nil {
		return util.Transient(err)
	}
	err = m.bind(ctx, dir, args, there)
	if err == nil || volume.KindOf(err) == volume.Uncertain {
		return err
	}
	if undo := m.plugin.notes.Remove(ctx, dir); undo != nil {
		return volume.AsUncertain(fmt.Errorf("%w (cleaning up: %w)", err, undo))
	}
	return err
}

// bind mounts the checked file, even if its path has another file by now; a mounter that
// takes paths alone mounts the path.
func (m *mounter) bind(ctx context.Context, dir string, args volume.MounterArgs, there found) error {
	req := m.request(dir, args, there.mode)
	req.Source = there.path
	req.SourceFile = there.file
	err := m.mountOn(ctx, dir, req, there.mode.IsDir())
	if there.file != nil && errors.Is(err, errors.ErrUnsupported) {
		req.SourceFile = nil
		err = m.mountOn(ctx, dir, req, there.mode.IsDir())
	}
	return m.source.refusedDevice(err, there.mode)
}

func (m *mounter) mountOn(ctx context.Context, dir string, req mount.Request, isDir bool) error {
	if !isDir {
		return m.plugin.mounts.MountFile(ctx, dir, req)
	}
	// An earlier volume that was a file, and whose set-up failed, has left its mount point.
	if err := safepath.RemoveEmptyFile(context.Background(), dir); errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("%s: %w: %w: a file", dir, volume.ErrAlreadyMounted, mount.ErrMounted)
	}
	return m.plugin.mounts.Mount(ctx, dir, req)
}

// request returns the volume's mount request for a file of a mode. It allows devices if the file
// is one, or by an option of a persistent volume, independent of the mounter's default.
func (m *mounter) request(dir string, args volume.MounterArgs, mode fs.FileMode) mount.Request {
	options := slices.Clone(m.options)
	if m.source.isDevice(mode) && (m.source.kind != v1.HostPathUnset || !slices.Contains(options, "nodev")) {
		options = append(options, "dev")
	} else if !slices.Contains(options, "dev") {
		options = append(options, "nodev")
	}
	if m.readOnly || args.ReadOnly {
		options = append(options, "ro")
	}
	config := m.plugin.config
	return mount.Request{
		Source: m.source.path, Target: dir, Options: options,
		Submounts: config.Submounts, Propagation: config.Propagation,
	}
}

// checkOptions refuses options that no mounter accepts. SetUp refuses those that the
// mounter's own configuration forbids.
func (m *mounter) checkOptions() error {
	req := m.request(m.path, volume.MounterArgs{}, 0)
	_, err := req.Parse(mount.Allow{SUID: true, Dev: true})
	return err
}

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter]. dir must be below the host's root or a target
// directory. Its parents, which belong to the pod, stay. The mounts below the volume's mount
// that are part of the volume are unmounted with it, also if the configuration was another one
// at set-up; first they are made private, so that the node's mounts below the path stay. (If
// the mounter is no [mount.Isolator] such a volume stays set up, with an error.) A volume in
// use stays, but private and without some of the mounts in it.
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	return u.plugin.mounts.Exclusively(ctx, dir, func(ctx context.Context, dir string) error {
		inside := util.WithSubmounts(func(mount.Info) bool { return true })
		if err := u.plugin.mounts.Unmount(ctx, dir, util.AlsoFile(), inside, util.Isolated()); err != nil {
			return err
		}
		if err := u.plugin.notes.Remove(ctx, dir); err != nil {
			return util.Transient(err)
		}
		return nil
	})
}
