package hostpath

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
)

// A podVolume is a volume's place for a pod.
type podVolume struct {
	plugin *Plugin
	path   string
}

// GetPath returns the path of the volume for the pod, which is a file if the volume is
// no directory.
func (v podVolume) GetPath() string { return v.path }

// GetMetrics counts what is at the path, see fsusage.Walker, for which it walks through
// a directory at most every ten seconds; capacity and what is free are those of the file
// system. A directory for which ctx leaves too little time is gone on with by the next
// call.
func (v podVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	return v.plugin.mounts.GetCounted(ctx, v.path, v.plugin.walker)
}

type mounter struct {
	podVolume
	source   source
	options  []string
	readOnly bool
}

// GetAttributes says whether the specification is read-only.
func (m *mounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

// SetUpAt implements [volume.Mounter]. The path must be below the host's root. If there
// is not what the type says the error is a [*TypeError]. If something else is mounted
// there, or the volume with other flags, it wraps [volume.ErrAlreadyMounted] and
// [mount.ErrMounted].
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := checkArgs(args); err != nil {
		return err
	}
	return m.plugin.mounts.Exclusively(ctx, dir, func(dir string) error {
		return m.setUp(ctx, dir, args)
	})
}

// checkArgs refuses what a pod asks for and would not get.
func checkArgs(args volume.MounterArgs) error {
	for _, arg := range []struct {
		name  string
		given bool
	}{
		{"DesiredSize", args.DesiredSize != nil},
		{"SELinuxLabel", args.SELinuxLabel != ""},
	} {
		if arg.given {
			return fmt.Errorf("MounterArgs.%s for a path of the host: %w", arg.name, volume.ErrNotSupported)
		}
	}
	return nil
}

func (m *mounter) setUp(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := context.Cause(ctx); err != nil {
		return util.Transient(err)
	}
	there, err := m.prepare(ctx)
	if err != nil {
		return err
	}
	defer there.close()
	return m.bind(ctx, dir, args, there)
}

// bind mounts what was looked at, whatever is at its path by now; but the path, if the
// mounter takes paths alone.
func (m *mounter) bind(ctx context.Context, dir string, args volume.MounterArgs, there found) error {
	req := m.request(dir, args)
	req.SourceFile = there.file
	err := m.mountOn(ctx, dir, req, there.mode.IsDir())
	if there.file != nil && errors.Is(err, errors.ErrUnsupported) {
		req.SourceFile = nil
		err = m.mountOn(ctx, dir, req, there.mode.IsDir())
	}
	return err
}

func (m *mounter) mountOn(ctx context.Context, dir string, req mount.Request, isDir bool) error {
	if !isDir {
		return m.plugin.mounts.MountFile(ctx, dir, req)
	}
	// Of a volume that was a file and did not come to its end, the place is left.
	if err := safepath.RemoveEmptyFile(dir); errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("%w: %w: a file", volume.ErrAlreadyMounted, mount.ErrMounted)
	}
	return m.plugin.mounts.Mount(ctx, dir, req)
}

// request is the mount that the volume needs. Devices can be used if the type is one, or
// an option of a persistent volume says so, whatever the mounter would allow.
func (m *mounter) request(dir string, args volume.MounterArgs) mount.Request {
	options := slices.Clone(m.options)
	if m.source.isDevice() {
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

// checkOptions refuses options that no mounter accepts. What the mounter's own
// configuration forbids, SetUp refuses.
func (m *mounter) checkOptions() error {
	req := m.request(m.path, volume.MounterArgs{})
	_, err := req.Parse(mount.Allow{SUID: true, Dev: true})
	return err
}

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter]. The path must be below the host's root. Its
// parents stay: they are the pod's. With a volume the mounts go that are part of it,
// also if the configuration was another one when it was set up; before that they are made
// private, so that what the node has below the path stays. (A mounter that cannot is no
// [mount.Isolator]; with it such a volume stays up, with an error.) If the volume is in use
// it stays up, but private and without some of the mounts in it.
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	return u.plugin.mounts.Exclusively(ctx, dir, func(dir string) error {
		inside := util.WithThoseInside(func(mount.Info) bool { return true })
		return u.plugin.mounts.Unmount(ctx, dir, util.AlsoFile(), inside, util.Isolated())
	})
}
