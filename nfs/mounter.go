package nfs

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/volume"
)

// A podVolume is a volume's place for a pod.
type podVolume struct {
	plugin *Plugin
	path   string
}

// GetPath returns the path of the volume for the pod.
func (v podVolume) GetPath() string { return v.path }

// GetMetrics measures the export's file system, which others share. If the server
// does not answer until ctx ends that is the error; for each mount at most one call
// waits for the server.
func (v podVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	return v.plugin.mounts.GetMetrics(ctx, v.path)
}

type mounter struct {
	podVolume
	source   source
	wish     wish
	readOnly bool
}

// GetAttributes says whether the specification is read-only. The server has the
// owners in its hands: they are not changed to a pod's group.
func (m *mounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

// SetUpAt implements [volume.Mounter]. The directory must be below the host's root.
// A volume that is up already is asked whether its server still knows it: one whose
// handle has gone stale, because the export was removed and made again, is mounted
// anew. FsUser and FsGroup have no effect, as in Kubernetes.
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := checkArgs(args); err != nil {
		return err
	}
	p := m.plugin
	p.exports.sweep(ctx)
	return p.mounts.Exclusively(ctx, dir, func(dir string) error {
		if err := p.freshen(ctx, dir); err != nil {
			return err
		}
		ways := p.config.Transport.ways(m.source, m.wish, m.readOnly || args.ReadOnly)
		if p.config.OneMountPerExport {
			return p.exports.setUp(ctx, dir, ways, p.freshen)
		}
		return inTurn(ways, func(req mount.Request) error { return p.mounts.Mount(ctx, dir, req) })
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
			return fmt.Errorf("MounterArgs.%s for an NFS volume: %w", arg.name, volume.ErrNotSupported)
		}
	}
	return nil
}

// freshen unmounts an export that is mounted at dir if its handle is stale. Nothing
// has changed if the server does not answer.
func (p *Plugin) freshen(ctx context.Context, dir string) error {
	if mounted, err := p.config.Mounter.IsMountPoint(ctx, dir); err == nil && !mounted {
		return nil
	}
	at, _, err := p.mounts.At(ctx, dir)
	if errors.Is(err, volume.ErrNotMounted) || errors.Is(err, volume.ErrUncertain) || err == nil && !isNFS(at) {
		return nil // Mount says what is wrong, if anything is
	}
	if err != nil {
		return err
	}
	_, err = fsusage.Stat(ctx, dir)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, syscall.ESTALE):
		return util.Transient(fmt.Errorf("%s is mounted on %s: %w", at.Source, dir, err))
	}
	return unmount(ctx, p.mounts, dir, util.KeepDirectory())
}

func isNFS(at mount.Info) bool { return at.FSType == "nfs" || at.FSType == "nfs4" }

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter]. The directory must be below the host's
// root. Its parents stay: they are the pod's.
//
// A volume whose server does not answer is taken down as the mounter's policy has
// it (mount.UnmountPolicy): by default also while it is in use, after two times its
// grace. It is down when nothing is mounted there any more: the kernel may tell the
// server of it, and write what it has, later.
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	p := u.plugin
	defer p.exports.sweep(ctx)
	return p.mounts.Exclusively(ctx, dir, func(dir string) error {
		return p.exports.tearDown(ctx, dir)
	})
}
