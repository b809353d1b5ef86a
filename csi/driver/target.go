package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ownDirs are directories of the driver, which are no target paths.
type ownDirs struct {
	root string // of the host
	// whole are directories without any target path.
	whole []string
	// open are directories below the root with target paths.
	open []string
}

// findOwnDirs returns the directories of a driver. A kubelet whose directory is the root publishes in the
// directories of its pods, and raw devices in that of its plugin kubernetes.io/csi.
func findOwnDirs(ctx context.Context, c Config) (own ownDirs, err error) {
	own.root = c.Host.Root()
	records, err := c.pluginDir()
	if err != nil {
		return own, err
	}
	plugin, err := c.Host.PluginDir(c.Plugin.GetPluginName())
	if err != nil {
		return own, err
	}
	caller, err := c.Host.PluginDir("kubernetes.io/csi")
	if err != nil {
		return own, err
	}
	own.whole = []string{records, plugin}
	own.open = []string{filepath.Join(own.root, "pods"), caller}
	if c.ControllerDir != "" {
		dir, err := podvolume.ResolveLinks(ctx, c.ControllerDir)
		if err != nil {
			return own, fmt.Errorf("directory of the controller's records: %w", err)
		}
		own.whole = append(own.whole, filepath.Join(dir, c.Name))
	}
	return own, nil
}

// check refuses a target path at which a volume would hide files of the driver.
func (o ownDirs) check(target string) error {
	refused := isIn(o.root, target)
	for _, dir := range o.whole {
		refused = refused || isIn(dir, target) || isIn(target, dir)
	}
	isOpen := func(dir string) bool { return dir != target && isIn(target, dir) }
	if isIn(target, o.root) && !slices.ContainsFunc(o.open, isOpen) {
		refused = true
	}
	if refused {
		return volume.Invalid(field.NewPath("targetPath"), target, "is a directory of the driver, or has one")
	}
	return nil
}

// isIn reports whether a path is a directory, or below it.
func isIn(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// unpublishUnrecorded unmounts a volume of the plugin at a path that no record has. Mounts of other programs
// stay, and so does each mount while the record of another volume is unreadable: that volume may be published
// there.
func (d *driver) unpublishUnrecorded(ctx context.Context, id volumeID, target string) error {
	if err := d.own.check(target); err != nil {
		return err
	}
	if d.block != nil {
		if mapped, err := d.isMapped(ctx, id, target); err != nil {
			return err
		} else if mapped {
			return d.unpublishDevice(ctx, id, target)
		}
	}
	up, err := d.isOfPlugin(ctx, id, target)
	if err != nil || !up {
		return err
	}
	if broken, err := d.onNode.hasBroken(id.text); err != nil || broken {
		return errors.Join(codedf(codes.Aborted, "%s has a volume of the driver, and the record of another volume is unreadable", input.Quote(target)), err)
	}
	unmounter, err := d.paths.NewUnmounterAt(target)
	if err != nil {
		return err
	}
	return unmounter.TearDown(ctx)
}

// isOfPlugin reports whether a volume of the plugin is mounted at a path. Another mount is
// FAILED_PRECONDITION.
func (d *driver) isOfPlugin(ctx context.Context, id volumeID, target string) (bool, error) {
	_, err := d.config.Plugin.ConstructVolumeSpec(ctx, id.name, target)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, volume.ErrNotMounted):
		return false, nil
	case ctx.Err() != nil, volume.KindOf(err) == volume.Transient:
		return false, err
	}
	return false, codedf(codes.FailedPrecondition, "%s has a mount, and not of a volume of the driver: %s", input.Quote(target), err.Error())
}

// isRemoved reports whether no file has a path. It reads the directory above: a query of the path itself
// would wait for the server of a volume that is mounted there.
func isRemoved(name string) bool {
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	names, err := dir.Readdirnames(-1)
	return errors.Join(err, dir.Close()) == nil && !slices.Contains(names, filepath.Base(name))
}
