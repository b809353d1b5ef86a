package flexvolume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/dirwatch"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Discover registers a plugin for each directory "vendor~driver" in [Config].Dir, unless a plugin of the name is
// registered, and returns the names of the new plugins. It calls no driver: a driver that is not complete yet is
// called once it is. Entries that begin with a dot are ignored, and so are files, symbolic links, and directories
// whose names cannot be those of a plugin. A missing directory has no drivers. Call Discover before the start of a
// manager, which restores the volumes of registered plugins alone.
//
// It is idempotent, and safe for concurrent use. An error of one driver does not keep others from being registered.
func Discover(ctx context.Context, mgr *volume.VolumePluginMgr, config Config) (registered []string, err error) {
	defer brief.Shorten(&err)
	if mgr == nil {
		return nil, field.Required(field.NewPath("mgr"), "plugins need a register")
	}
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("flexvolume: %w", err)
	}
	registered, unread, err := discover(ctx, mgr, config)
	return registered, errors.Join(unread, err)
}

// discover is Discover, with the error of an unread directory apart from those of drivers.
func discover(ctx context.Context, mgr *volume.VolumePluginMgr, config Config) (registered []string, unread, err error) {
	names, err := driversIn(ctx, cmp.Or(config.Dir, DefaultDir))
	if err != nil {
		return nil, fmt.Errorf("flexvolume: read the directory of drivers: %w", err), nil
	}
	var failures []error
	for _, name := range names {
		if isRegistered(mgr, name) {
			continue
		}
		config.Driver = name
		err := mgr.Register(ctx, New(config))
		switch {
		case err == nil:
			registered = append(registered, name)
		case isRegistered(mgr, name): // by a concurrent call
		default:
			failures = append(failures, err)
		}
	}
	return registered, nil, errors.Join(failures...)
}

func isRegistered(mgr *volume.VolumePluginMgr, name string) bool {
	return slices.ContainsFunc(mgr.Plugins(), func(p volume.VolumePlugin) bool { return p.GetPluginName() == name })
}

// reading holds the directories of drivers that are read.
var reading keylock.Map

// driversIn returns the names of the drivers that have a directory in dir, sorted.
func driversIn(ctx context.Context, dir string) ([]string, error) {
	entries, _, err := keylock.Await(ctx, reading.Key(dir), ctxend.Kernel, func() ([]fs.DirEntry, error) { return os.ReadDir(dir) }, nil)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		name, err := volume.UnescapeQualifiedName(entry.Name())
		if err != nil || !entry.IsDir() || checkDriver(nil, name) != nil {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// pollInterval is how often a directory that cannot be watched is read.
const pollInterval = 10 * time.Second

// Watch calls [Discover] at its start and after each change of [Config].Dir, until ctx ends; then it returns nil. It
// calls report with the names of new plugins, or an error, unless report is nil; the same error in a row once. It watches by inotify(7); a
// directory that is missing, or cannot be watched, is read again after ten seconds. The error is that of an invalid
// configuration.
func Watch(ctx context.Context, mgr *volume.VolumePluginMgr, config Config, report func(registered []string, err error)) error {
	if mgr == nil {
		return field.Required(field.NewPath("mgr"), "plugins need a register")
	}
	if err := config.check(); err != nil {
		return fmt.Errorf("flexvolume: %w", err)
	}
	last := ""
	look := func() (unread error) {
		registered, unread, err := discover(ctx, mgr, config)
		err = brief.Of(errors.Join(unread, err))
		isNew := err != nil && err.Error() != last
		if last = ""; err != nil {
			last = err.Error()
		}
		if report != nil && ctx.Err() == nil && (len(registered) > 0 || isNew) {
			report(registered, err)
		}
		return unread
	}
	for ctx.Err() == nil {
		err := look() // a directory that does not answer is not watched
		if err == nil {
			_, err = ctxend.Await(ctx, ctxend.Kernel, func() (struct{}, error) {
				return struct{}{}, dirwatch.Watch(ctx, cmp.Or(config.Dir, DefaultDir), func([]string) { _ = look() })
			}, nil)
		}
		if !errors.Is(err, dirwatch.ErrMoved) {
			_ = ctxend.Sleep(ctx, pollInterval)
		}
	}
	return nil
}
