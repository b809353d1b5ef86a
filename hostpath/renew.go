package hostpath

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
)

// renew mounts the file in the place of the noted mount. A mount that is refused changes nothing. Before
// the unmount the file that comes is noted.
func (m *mounter) renew(ctx context.Context, dir string, args volume.MounterArgs, have note, there found) error {
	if err := m.plugin.checkAlone(ctx, dir); err != nil {
		return err
	}
	if err := m.try(ctx, dir, args, there); err != nil {
		return err
	}
	renewing, next := have, m.noteFor(there, args.ReadOnly)
	renewing.Next = &next.mounted
	if err := m.plugin.writeNote(ctx, dir, renewing); err != nil {
		return err
	}
	options := []util.UnmountOption{util.AlsoFile(), util.Isolated()}
	if have.Submounts {
		options = append(options, allInside)
	}
	if err := m.plugin.mounts.Unmount(ctx, dir, options...); err != nil {
		if have.Submounts { // some may be unmounted, or without propagation
			err = volume.AsUncertain(err)
		}
		return err
	}
	if err := m.bindNew(ctx, dir, args, there); err != nil {
		return volume.AsUncertain(err)
	}
	return nil
}

// checkAlone refuses a volume with another mount beneath its own: who has made that one is not known.
func (p *Plugin) checkAlone(ctx context.Context, dir string) error {
	_, view, err := p.mounts.At(ctx, dir)
	if err != nil {
		return err
	}
	count := 0
	for _, info := range view.Table() {
		if info.Mountpoint == dir {
			count++
		}
	}
	if count > 1 {
		return fmt.Errorf("%s: %w: %w: beneath the volume", dir, volume.ErrAlreadyMounted, mount.ErrMounted)
	}
	return nil
}

// mayHaveSubmounts reports whether mounts below the mount of a new volume may be the volume's.
func (p *Plugin) mayHaveSubmounts() bool {
	return p.config.Submounts == mount.IncludeSubmounts || p.config.Propagation != mount.PropagationPrivate
}

// allInside also unmounts all mounts below a volume's mount.
var allInside = util.WithSubmounts(func(mount.Info) bool { return true })

// try mounts the file as the volume's would be, in a directory of the plugin, and unmounts it.
func (m *mounter) try(ctx context.Context, dir string, args volume.MounterArgs, there found) error {
	at, err := m.plugin.trialPath(dir)
	if err != nil {
		return err
	}
	if err := m.bind(ctx, at, args, there); err != nil {
		return err
	}
	if err := m.plugin.endTrial(ctx, dir); err != nil {
		return volume.AsUncertain(err)
	}
	return nil
}

// endTrial removes what a process that died has left of a trial for the volume at dir.
func (p *Plugin) endTrial(ctx context.Context, dir string) error {
	at, err := p.trialPath(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path.Dir(at)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return p.removeTrial(ctx, at)
}

func (p *Plugin) removeTrial(ctx context.Context, at string) error {
	if err := p.mounts.Unmount(ctx, at, util.AlsoFile(), allInside, util.Isolated()); err != nil {
		return err
	}
	return util.Transient(util.RemoveEmptyParents(context.WithoutCancel(ctx), path.Dir(path.Dir(at)), at))
}

// trials is the directory of trials in the plugin's.
const trials = "renewals"

// trialPath returns the place of a trial for the volume at dir.
func (p *Plugin) trialPath(dir string) (string, error) {
	own, err := p.host.PluginDir(PluginName)
	sum := sha256.Sum256([]byte(dir))
	return path.Join(own, trials, hex.EncodeToString(sum[:16])), err
}

// endTrials removes what earlier processes have left of trials. What is busy stays for TearDown.
func (p *Plugin) endTrials(ctx context.Context) error {
	own, err := p.host.PluginDir(PluginName)
	if err != nil {
		return err
	}
	dir := path.Join(own, trials)
	read := func() ([]fs.DirEntry, error) { return os.ReadDir(dir) }
	left, _, err := keylock.Await(ctx, reading.Key(dir), ctxend.Kernel, read, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range left {
		_ = p.removeTrial(ctx, path.Join(dir, entry.Name()))
	}
	return err
}

// reading has the directories that are being read: a file system that does not answer costs one call for each.
var reading keylock.Map
