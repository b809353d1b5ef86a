package nfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

// A podVolume is the directory of a volume for a pod.
type podVolume struct {
	plugin *Plugin
	path   string
}

// GetPath returns the path of the volume for the pod.
func (v podVolume) GetPath() string { return v.path }

// GetMetrics measures the export's file system, which other volumes share. If the server
// does not answer before ctx ends, the error says so; for each mount at most one call
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

// GetAttributes returns ReadOnly as the specification has it, and Managed false: the
// server decides on owners, so they are not changed to a pod's group.
func (m *mounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

// SetUpAt implements [volume.Mounter]. The directory must be below the host's root or a target
// directory, and not the plugin's own. The server of a mounted volume is queried whether it
// still knows the export: a volume with a stale handle, because the export was removed and
// made again, is mounted anew; if it is in use, as the mounter's policy allows. FsUser and
// FsGroup have no effect, as in Kubernetes.
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := podvolume.RefuseSizeAndLabel("an NFS volume", args); err != nil {
		return err
	}
	if err := m.plugin.exports.refuse(dir); err != nil {
		return err
	}
	m.plugin.exports.sweep(ctx)
	return m.plugin.mounts.Exclusively(ctx, dir, func(ctx context.Context, dir string) error {
		renewed, err := m.renew(ctx, dir)
		if err == nil {
			err = m.setUp(ctx, dir, m.readOnly || args.ReadOnly)
		}
		if err != nil && renewed {
			return volume.AsUncertain(fmt.Errorf("%s: unmounted a stale mount: %w", dir, err))
		}
		return err
	})
}

func (m *mounter) setUp(ctx context.Context, dir string, readOnly bool) error {
	p := m.plugin
	ways := p.config.Transport.requests(m.source, m.wish, readOnly)
	if p.config.OneMountPerExport {
		return p.exports.setUp(ctx, dir, m.wish.version, ways)
	}
	return mountFirst(ways, func(req mount.Request) error { return p.mounts.Mount(ctx, dir, req) })
}

// renew unmounts the volume if it is mounted and stale, and reports whether it did. If the
// server does not answer nothing has changed. Mounts other than NFS are left alone.
func (m *mounter) renew(ctx context.Context, dir string) (renewed bool, err error) {
	p := m.plugin
	at, ok, err := p.exports.mountAt(ctx, dir)
	if err != nil || !ok || at.Source != m.source.String() {
		return false, err
	}
	stale, err := isStale(ctx, at)
	if err != nil || !stale {
		return false, err
	}
	return true, unmount(ctx, p.mounts, dir, util.KeepDirectory())
}

// isStale queries the server of a mount whether it still has the mounted directory. An
// error other than ESTALE is an answer: a user without permission may still use the mount.
func isStale(ctx context.Context, at mount.Info) (bool, error) {
	_, err := fsusage.Stat(ctx, at.Mountpoint)
	switch {
	case err == nil, errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, syscall.ESTALE):
		return true, nil
	}
	return false, util.Transient(fmt.Errorf("query the server of %s, mounted on %s: %w", at.Source, at.Mountpoint, err))
}

func isNFS(at mount.Info) bool { return at.FSType == "nfs" || at.FSType == "nfs4" }

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter]. The directory must be below the host's root or a
// target directory. Its parents, which belong to the pod, stay.
//
// A volume whose server does not answer is unmounted as the mounter's policy says
// (mount.UnmountPolicy): by default also while it is in use, after twice the policy's
// grace. TearDownAt returns when nothing is mounted there any more: the kernel may
// notify the server, and write data back, later.
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	p := u.plugin
	if err := p.exports.refuse(dir); err != nil {
		return err
	}
	defer p.exports.sweep(ctx)
	return p.mounts.Exclusively(ctx, dir, func(ctx context.Context, dir string) error {
		return p.exports.tearDown(ctx, dir)
	})
}
