package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/examples/internal/cli"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// down is -down: it knows what an earlier run has left by looking there.
func down(ctx context.Context, o options, c *console, where place) {
	dir, err := filepath.Abs(o.root)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		c.printf("Nothing to take down: there is no %s.\n", plain(o.root))
		return
	}
	var plugins *volume.VolumePluginMgr
	if err == nil {
		// Any directory: the plugin is to find where a mount is from, not to mount.
		plugins, err = pluginsFor(base(dir), where, []string{"/"}, &content.MapGetter{})
	}
	if err != nil {
		c.fail(fmt.Errorf("-root: %w", err))
		return
	}
	takeDown{console: c, base: base(dir), place: where, plugins: plugins, tell: true}.all(ctx)
}

// takeDown removes all that is below a base, by what is on disk and in the mount
// table alone. It never looks into a volume, and directories are removed only if
// they are empty.
type takeDown struct {
	*console
	base    base
	place   place
	plugins *volume.VolumePluginMgr
	tell    bool // what each volume was
}

// all goes on after a failure: what can be taken down is.
func (t takeDown) all(ctx context.Context) {
	taken := 0
	for _, at := range t.volumes() {
		if err := t.one(ctx, at); err != nil {
			t.fail(fmt.Errorf("%s: take down: %w", at, err))
			continue
		}
		taken++
	}
	if err := t.base.removeMade(); err != nil {
		t.fail(err)
	}
	t.prove(ctx, taken)
}

// prove looks for what is left.
func (t takeDown) prove(ctx context.Context, taken int) {
	table, err := t.place.List(ctx)
	if err != nil {
		t.fail(err)
		return
	}
	if left := t.base.left(table); len(left) > 0 {
		t.fail(fmt.Errorf("left: %s", strings.Join(left, ", ")))
		return
	}
	t.printf("%s: no mount and no directory is left.\n", summary(taken))
}

func summary(taken int) string {
	switch taken {
	case 0:
		return "Nothing is up"
	case 1:
		return "Took down 1 volume"
	}
	return fmt.Sprintf("Took down %d volumes", taken)
}

// A volumeDir is a directory where a volume may be, by the names in its path.
type volumeDir struct{ pod, plugin, volume string }

func (d volumeDir) String() string { return plain(d.pod + "/" + d.plugin + "/" + d.volume) }

// volumes lists what looks like volumes of pods, by name alone: by their directories,
// and by what the plugins have noted of them.
func (t takeDown) volumes() []volumeDir {
	var all []volumeDir
	for _, pod := range t.names("") {
		for _, kind := range []string{"volumes", "plugins"} {
			for _, plugin := range t.names(pod, kind) {
				for _, name := range t.names(pod, kind, plugin) {
					if at := (volumeDir{pod, plugin, name}); !slices.Contains(all, at) {
						all = append(all, at)
					}
				}
			}
		}
	}
	return all
}

// names lists a directory of the pods. An empty one is removed, since nothing
// else is going to do it, with its parents as far as they are empty.
func (t takeDown) names(elem ...string) []string {
	dir := filepath.Join(append([]string{t.base.pods()}, elem...)...)
	names, err := namesIn(dir)
	if err == nil && len(names) == 0 {
		err = util.RemoveEmptyParents(string(t.base), filepath.Join(dir, "any"))
	}
	if err != nil {
		t.fail(err)
	}
	slices.Sort(names)
	return names
}

func (t takeDown) one(ctx context.Context, at volumeDir) error {
	name, err := volume.UnescapeQualifiedName(at.plugin)
	if err != nil {
		return err
	}
	plugin, err := t.plugins.FindPluginByName(name)
	if err != nil {
		return err
	}
	unmounter, err := plugin.NewUnmounter(at.volume, types.UID(at.pod))
	if err != nil {
		return err
	}
	if t.tell {
		t.printf("%s/%s: %s, %s\n", plain(at.pod), plain(at.volume), name, was(ctx, plugin, at.volume, unmounter.GetPath()))
	}
	if err := unmounter.TearDown(ctx); err != nil {
		return err
	}
	return util.RemoveEmptyParents(string(t.base), unmounter.GetPath())
}

// was says what a volume is before it is taken down, for the user only: tearing
// it down does not need to know.
func was(ctx context.Context, plugin volume.VolumePlugin, name, path string) string {
	spec, err := plugin.ConstructVolumeSpec(ctx, name, path)
	switch {
	case errors.Is(err, volume.ErrNotMounted):
		return "a directory where nothing is mounted"
	case err != nil:
		return cli.OneLine(err.Error())
	}
	from, ok := sourceOf(spec)
	if !ok {
		return "written for the pod"
	}
	mode := "rw"
	if spec.IsReadOnly() {
		mode = "ro"
	}
	return mode + " from " + plain(from)
}
