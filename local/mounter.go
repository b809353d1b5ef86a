package local

import (
	"context"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
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
	return m.plugin.mounts.SetUp(ctx, dir, m.request(dir, args))
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

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter]. The directory must be below the
// host's root. Its parents stay: they are the pod's.
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	return u.plugin.mounts.TearDown(ctx, dir)
}
