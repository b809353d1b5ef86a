package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/examples/internal/container"
	"github.com/volumekit/volumekit/examples/internal/machine"
	"github.com/volumekit/volumekit/examples/internal/remnants"
	"github.com/volumekit/volumekit/examples/internal/workdir"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A job brings the volumes of a pod up and down.
type job struct {
	*cli.Console
	options
	kernel   machine.Kernel
	base     base
	manifest *manifest
	plugins  *volume.VolumePluginMgr
	volumes  []podVolume
}

// newJob reads the manifest, and makes the directory of -root for a valid one only.
func newJob(o options, stdin io.Reader, where machine.Kernel, c *cli.Console) (j *job, err error) {
	j = &job{Console: c, options: o, kernel: where}
	if o.file != "" {
		if err := j.load(o.file, stdin); err != nil {
			return j, err
		}
	}
	for _, dir := range o.disks {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return j, fmt.Errorf("-disks: %s: no such directory", dir)
		}
	}
	dir, err := workdir.Open(o.root)
	if err != nil {
		return j, fmt.Errorf("-root: %w", err)
	}
	if err = base(dir).checkUnused(); err != nil {
		return j, err
	}
	j.base = base(dir) // from here on this run removes it
	if o.file == "" {
		err = j.parseManifest(builtinName, builtinBelow(j.base))
	}
	return j, err
}

func (j *job) load(file string, stdin io.Reader) error {
	const limit = 1 << 20
	text, err := cli.ReadFile(file, stdin, limit)
	if err != nil {
		return fmt.Errorf("-f: the manifest: %w", err)
	}
	if file == "-" {
		file = "standard input"
	}
	return j.parseManifest(file, text)
}

func (j *job) parseManifest(name string, text []byte) (err error) {
	if j.manifest, err = parse(name, text); err == nil {
		j.volumes, err = j.manifest.volumes()
	}
	return err
}

// prepare finds the plugins, and all errors that show before a mount.
func (j *job) prepare(ctx context.Context) (err error) {
	if j.file == "" {
		if err := workdir.Make(j.base.disks(), j.base.builtinDisks()...); err != nil {
			return fmt.Errorf("disks of the built-in manifest: %w", err)
		}
		j.disks = cli.Paths{j.base.disks()}
	}
	if j.plugins, err = pluginsFor(ctx, j.base, j.kernel, j.options, j.manifest.getter()); err != nil {
		return err
	}
	for i := range j.volumes {
		v := &j.volumes[i]
		if v.Spec.IsBlock() && j.kernel.InMemory {
			return v.Problem(field.Forbidden(modePath, "an in-memory kernel has no block devices"))
		}
		if err := v.plan(j.plugins, j.manifest.pod); err != nil {
			return j.addDiskHint(err)
		}
	}
	return nil
}

// pluginsFor registers the plugins of this node.
func pluginsFor(ctx context.Context, b base, where machine.Kernel, o options, from *content.MapGetter) (*volume.VolumePluginMgr, error) {
	host, err := volume.NewHost(ctx, string(b))
	if err != nil {
		return nil, err
	}
	written := from.Config()
	written.Mounter = where
	written.TrustBundles = nil // a manifest has none
	forHostPaths := where.Interface
	if o.devices {
		forHostPaths = where.WithDevices
	}
	return volume.NewVolumePluginMgr(ctx, host,
		local.New(local.Config{Mounter: where, Roots: o.disks}),
		hostpath.New(hostpath.Config{Mounter: forHostPaths, Roots: o.disks}),
		nfs.New(nfs.Config{Mounter: where}),
		emptydir.New(emptydir.Config{Mounter: where}),
		content.NewConfigMap(written),
		content.NewSecret(written),
		content.NewDownwardAPI(written),
		content.NewProjected(written),
	)
}

// addDiskHint adds the paths that -disks allows.
func (j *job) addDiskHint(err error) error {
	refused := (*field.Error)(nil)
	if !errors.As(err, &refused) || refused.Field != localPath.String() && !strings.HasSuffix(refused.Field, "hostPath.path") {
		return err
	}
	allowed := "none"
	if len(j.disks) > 0 {
		allowed = j.disks.String()
	}
	return fmt.Errorf("%w (allowed by -disks: %s)", err, allowed)
}

// removePrepared removes the directories that prepare created.
func (j *job) removePrepared(ctx context.Context) {
	if j.base == "" {
		return
	}
	if err := workdir.RemoveAll(context.WithoutCancel(ctx), j.base.createdDirs()); err != nil {
		j.Fail(err)
	}
}

// run sets the volumes up, uses them, and takes them down, also after a failure.
func (j *job) run(ctx context.Context) {
	j.Printf("%s\n", j.kernel.Description)
	err := j.upAndUse(ctx)
	if err != nil && ctx.Err() != nil {
		err = machine.ErrInterrupted
	}
	if err != nil && j.OutputErr() == nil {
		j.Fail(err)
	}
	if j.keep && j.Status() == 0 {
		j.Printf("All volumes are kept. Take them down with\n  go run ./examples/podvolumes -down -root %s\n",
			cli.Quoted(string(j.base)))
		return
	}
	const limit = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	remnants.Remnants{Console: j.Console, Root: string(j.base), Mounter: j.kernel, Plugins: j.plugins, Made: j.base.createdDirs()}.TakeDown(ctx)
}

func (j *job) upAndUse(ctx context.Context) error {
	for i := range j.volumes {
		if err := j.volumes[i].setUp(ctx); err != nil {
			return err
		}
	}
	mounts, err := j.kernel.List(ctx)
	if err != nil {
		return err
	}
	c := container.Container{Table: mounts, Base: string(j.base), Printf: j.Printf, InMemory: j.kernel.InMemory, Resolve: j.kernel.RealPath}
	var seen []container.Volume
	for i := range j.volumes {
		seen = append(seen, j.volumes[i].inContainer())
	}
	pod := j.manifest.pod
	dir := path.Join(filepath.ToSlash(j.base.pods()), string(pod.UID))
	j.Printf("Pod %s/%s, below %s:\n%s", pod.Namespace, pod.Name, cli.Plain(dir), c.List(seen, dir))
	for _, v := range seen {
		if err := c.Use(v); err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	if j.wait > 0 {
		j.Printf("Waiting for %v; an interrupt ends it.\n", j.wait)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(j.wait):
		return nil
	}
}
