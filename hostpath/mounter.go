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
// path if there is no type, and mount.Config.Allow. If dir has another mount, or the volume's with
// other flags, the error wraps [volume.ErrAlreadyMounted] and [mount.ErrMounted].
//
// With IsRemount a volume that the plugin's record proves to be set up with the same arguments stays as
// it is, without a look at the path. Without it, if the file at the path was replaced since, the new
// one is mounted instead; if that cannot be mounted the earlier one stays. If the call ends
// between the two, the error wraps [volume.ErrUncertain], and the next call continues.
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
	have, err := m.existing(ctx, dir)
	if err != nil {
		return err
	}
	isAsked := have.isOwn && slices.Equal(have.note.Options, m.optionsFor(args.ReadOnly))
	if args.IsRemount && isAsked && have.note.Next == nil {
		return nil // whatever is at the path by now
	}
	if have.mounted {
		if err := m.plugin.endTrial(ctx, dir); err != nil {
			return err
		}
	}
	from := m.source
	if have.note.File == (fileID{}) { // then the note has the only path that is known to be mounted
		from = from.withPath(have.note.Source)
	}
	there, err := m.prepare(ctx, from)
	if err != nil {
		return err
	}
	defer there.close()
	switch isOld := have.isOwn && (there.id != have.note.File || have.note.Next != nil); {
	case !have.mounted:
		return m.bindNew(ctx, dir, args, there)
	case isOld && isAsked:
		return m.renew(ctx, dir, args, have.note, there)
	case isOld:
		return fmt.Errorf("%s: %w: %w: with the options %q", dir, volume.ErrAlreadyMounted, mount.ErrMounted, have.note.Options)
	}
	err = m.bind(ctx, dir, args, there)
	switch {
	case isAsked && errors.Is(err, volume.ErrAlreadyMounted): // the mount of the path has other flags by now
		return m.renew(ctx, dir, args, have.note, there)
	case err != nil || isAsked && have.note.Mount != 0:
		return err
	}
	return m.noteMount(ctx, dir, there, args.ReadOnly)
}

// bindNew mounts the volume, and notes it: a path with symbolic links before the mount, since the mount
// table will not have them.
func (m *mounter) bindNew(ctx context.Context, dir string, args volume.MounterArgs, there found) error {
	hasLinks := there.path != m.source.path
	if hasLinks {
		if err := m.plugin.writeNote(ctx, dir, m.noteFor(there, args.ReadOnly)); err != nil {
			return err
		}
	}
	if err := m.bind(ctx, dir, args, there); err != nil {
		if !hasLinks || volume.KindOf(err) == volume.Uncertain {
			return err
		}
		if undo := m.plugin.removeNote(ctx, dir); undo != nil {
			return volume.AsUncertain(fmt.Errorf("%w (cleaning up: %w)", err, undo))
		}
		return err
	}
	if err := m.noteMount(ctx, dir, there, args.ReadOnly); err != nil {
		return volume.AsUncertain(err)
	}
	return nil
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
	options := m.optionsFor(args.ReadOnly)
	if m.source.isDevice(mode) && (m.source.kind != v1.HostPathUnset || !slices.Contains(options, "nodev")) {
		options = append(options, "dev")
	} else if !slices.Contains(options, "dev") {
		options = append(options, "nodev")
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
	return u.plugin.mounts.Exclusively(ctx, dir, u.tearDown)
}

func (u *unmounter) tearDown(ctx context.Context, dir string) error {
	if err := u.plugin.endTrial(ctx, dir); err != nil {
		return err
	}
	if err := u.plugin.mounts.Unmount(ctx, dir, util.AlsoFile(), allInside, util.Isolated()); err != nil {
		return err
	}
	return u.plugin.removeNote(ctx, dir)
}
