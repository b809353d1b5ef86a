package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/examples/internal/machine"
	"github.com/volumekit/volumekit/examples/internal/remnants"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/volume"
)

// takeDownVolumes carries out the flag -down.
func takeDownVolumes(ctx context.Context, o options, c *cli.Console, kernel machine.Kernel) {
	dir, err := filepath.Abs(o.root)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		c.Printf("Nothing to take down: there is no %s.\n", cli.Plain(o.root))
		return
	}
	var plugins *volume.VolumePluginMgr
	if err == nil {
		// Any directory: the plugin is to find where a mount is from, not to mount.
		plugins, err = pluginsFor(ctx, base(dir), kernel, options{disks: []string{"/"}}, &content.MapGetter{})
	}
	if err != nil {
		c.Fail(fmt.Errorf("-root: %w", err))
		return
	}
	remnants.Remnants{Console: c, Root: dir, Mounter: kernel, Plugins: plugins, Made: base(dir).createdDirs(), Tell: true}.TakeDown(ctx)
}
