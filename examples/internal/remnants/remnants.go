// Package remnants takes down the volumes that a program has left below the root of its
// volume.Host, by the names on disk and the mount table alone. It never reads a volume,
// and removes a directory only if it is empty.
package remnants

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/examples/internal/container"
	"github.com/volumekit/volumekit/examples/internal/workdir"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// Remnants are the volumes below Root.
type Remnants struct {
	*cli.Console
	Root    string
	Mounter mount.Interface
	Plugins *volume.VolumePluginMgr
	Tell    bool // print a line about each volume
	// Made are directories of package workdir, each with its subdirectories, in the order
	// of removal.
	Made []workdir.Made
}

// TakeDown takes down all volumes of pods, then the raw devices that plugins prepared for
// all pods, and removes the directories that the program has made. It goes on after a
// failure, and reports mounts and directories that are left.
func (r Remnants) TakeDown(ctx context.Context) {
	taken := 0
	for _, d := range r.volumes(ctx) {
		if err := r.takeDown(ctx, d); err != nil {
			r.Fail(fmt.Errorf("%s: take down: %w", d, err))
			continue
		}
		taken++
	}
	if err := r.takeDownDevices(ctx); err != nil {
		r.Fail(err)
	}
	if err := workdir.RemoveAll(ctx, r.Made); err != nil {
		r.Fail(err)
	}
	r.reportRemains(ctx, taken)
}

// reportRemains reports mounts and directories that are left.
func (r Remnants) reportRemains(ctx context.Context, taken int) {
	table, err := r.Mounter.List(ctx)
	if err != nil {
		r.Fail(err)
		return
	}
	if left := r.remains(table); len(left) > 0 {
		r.Fail(fmt.Errorf("left: %s", strings.Join(left, ", ")))
		return
	}
	summary := fmt.Sprintf("Took down %d volumes", taken)
	switch taken {
	case 0:
		summary = "Nothing is up"
	case 1:
		summary = "Took down 1 volume"
	}
	r.Printf("%s: no mount and no directory is left.\n", summary)
}

// remains lists mounts and directories of pods, and directories that the program has made.
func (r Remnants) remains(table []mount.Info) (left []string) {
	pods := filepath.Join(r.Root, "pods")
	for _, info := range table {
		if info.Mountpoint == pods || strings.HasPrefix(info.Mountpoint, pods+"/") {
			left = append(left, "mount "+info.Mountpoint)
		}
	}
	if _, err := os.Lstat(pods); !errors.Is(err, fs.ErrNotExist) {
		left = append(left, "directory "+pods)
	}
	for _, made := range r.Made {
		if workdir.IsMarked(made.Dir) {
			left = append(left, "directory "+made.Dir)
		}
	}
	return left
}

// A directory is one where a volume may be, by the names in its path.
type directory struct {
	pod, plugin, volume string
	isDevice            bool
}

func (d directory) String() string { return cli.Plain(d.pod + "/" + d.plugin + "/" + d.volume) }

// volumes lists the volumes of pods by name alone: their directories, and the notes of
// plugins.
func (r Remnants) volumes(ctx context.Context) (all []directory) {
	for _, pod := range r.names(ctx, "") {
		for _, kind := range []string{"volumes", "volumeDevices", "plugins"} {
			for _, plugin := range r.names(ctx, pod, kind) {
				for _, name := range r.names(ctx, pod, kind, plugin) {
					if d := (directory{pod, plugin, name, kind == "volumeDevices"}); !slices.Contains(all, d) {
						all = append(all, d)
					}
				}
			}
		}
	}
	return all
}

// names lists a directory of the pods. It removes an empty one, and its parents as far as
// they are empty.
func (r Remnants) names(ctx context.Context, elem ...string) []string {
	dir := filepath.Join(append([]string{r.Root, "pods"}, elem...)...)
	names, err := workdir.Names(dir)
	if err == nil && len(names) == 0 {
		err = r.removeParents(ctx, filepath.Join(dir, "any"))
	}
	if err != nil {
		r.Fail(err)
	}
	slices.Sort(names)
	return names
}

func (r Remnants) removeParents(ctx context.Context, path string) error {
	return util.RemoveEmptyParents(ctx, r.Root, path)
}

func (r Remnants) pluginOf(escaped string) (volume.VolumePlugin, error) {
	name, err := volume.UnescapeQualifiedName(escaped)
	if err != nil {
		return nil, err
	}
	return r.Plugins.FindPluginByName(name)
}

func (r Remnants) takeDown(ctx context.Context, d directory) error {
	plugin, err := r.pluginOf(d.plugin)
	if err != nil {
		return err
	}
	if d.isDevice {
		return r.unmap(ctx, plugin, d)
	}
	unmounter, err := plugin.NewUnmounter(d.volume, types.UID(d.pod))
	if err != nil {
		return err
	}
	if r.Tell {
		r.Printf("%s/%s: %s, %s\n", cli.Plain(d.pod), cli.Plain(d.volume), plugin.GetPluginName(),
			describe(ctx, plugin, d.volume, unmounter.GetPath()))
	}
	if err := unmounter.TearDown(ctx); err != nil {
		return err
	}
	return r.removeParents(ctx, unmounter.GetPath())
}

// describe returns the source of a volume, for the user only: tearing it down does not depend on
// it.
func describe(ctx context.Context, plugin volume.VolumePlugin, name, path string) string {
	found, err := plugin.ConstructVolumeSpec(ctx, podvolume.ViewedName(name), path)
	switch {
	case errors.Is(err, volume.ErrNotMounted):
		return "a directory where nothing is mounted"
	case err != nil:
		return cli.OneLine(err.Error())
	}
	from, ok := container.Source(found.Spec)
	if export := container.Export(found.Spec); export != nil {
		from, ok = export.Server+":"+export.Path, true
	}
	if !ok {
		return "written for the pod"
	}
	mode := "rw"
	if found.Spec.IsReadOnly() {
		mode = "ro"
	}
	return mode + " from " + cli.Plain(from)
}
