package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/examples/internal/cli"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A job brings the volumes of a pod up and down.
type job struct {
	*console
	options
	place   place
	base    base
	pod     *manifest
	uses    []use
	plugins *volume.VolumePluginMgr
	volumes []planned
}

// newJob reads the manifest, and makes the directory of -root only for one that
// can be understood.
func newJob(o options, stdin io.Reader, where place, c *console) (*job, error) {
	j := &job{console: c, options: o, place: where}
	var err error
	if j.uses, j.pod, err = load(o.file, stdin); err != nil {
		return j, err
	}
	if err := checkDisks(o.disks); err != nil {
		return j, err
	}
	b, err := openBase(o.root)
	if err == nil {
		err = b.checkUnused()
	}
	if err == nil {
		j.base = b // from here on it is for this run to tidy up
	}
	return j, err
}

func checkDisks(disks []string) error {
	for _, dir := range disks {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("-disks: %s: no such directory", dir)
		}
	}
	return nil
}

// prepare finds out all that can be known before anything is mounted.
func (j *job) prepare() error {
	err := j.makeDisks()
	if err == nil {
		from := j.pod.getter()
		addNode(from, j.pod.pods[0].object)
		j.plugins, err = pluginsFor(j.base, j.place, j.disks, from)
	}
	if err != nil {
		return err
	}
	for _, u := range j.uses {
		v, err := plan(j.plugins, u, j.pod.pods[0].object)
		if err != nil {
			return j.hint(err)
		}
		j.volumes = append(j.volumes, v)
	}
	return nil
}

// pluginsFor registers the plugins of this node.
func pluginsFor(b base, where place, disks []string, from *content.MapGetter) (*volume.VolumePluginMgr, error) {
	host, err := volume.NewHost(string(b))
	if err != nil {
		return nil, err
	}
	written := from.Config()
	written.Mounter = where
	written.TrustBundles = nil // a manifest has none
	return volume.NewVolumePluginMgr(host,
		local.New(local.Config{Mounter: where, Roots: disks}),
		hostpath.New(hostpath.Config{Mounter: where, Roots: disks}),
		emptydir.New(emptydir.Config{Mounter: where}),
		content.NewConfigMap(written),
		content.NewSecret(written),
		content.NewDownwardAPI(written),
		content.NewProjected(written),
	)
}

func (j *job) makeDisks() error {
	if j.file != "" {
		return nil
	}
	if err := j.base.makeDisks(); err != nil {
		return fmt.Errorf("disks of the built-in manifest: %w", err)
	}
	j.pod.place(j.base)
	j.disks = cli.Paths{j.base.disks()}
	return nil
}

// hint says what could be done about a path that is refused.
func (j *job) hint(err error) error {
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

// abandon removes what prepare has made.
func (j *job) abandon() {
	if j.base == "" {
		return
	}
	if err := j.base.removeMade(); err != nil {
		j.fail(err)
	}
}

// run goes from nothing to nothing, whatever happens in between.
func (j *job) run(ctx context.Context) {
	j.printf("%s\n", j.place.says)
	err := j.upAndCheck(ctx)
	if err != nil && ctx.Err() != nil {
		err = errInterrupted
	}
	if err != nil {
		j.fail(err)
	}
	if j.keep && !j.failed {
		j.printf("All volumes are kept. Take them down with\n  go run ./examples/podvolumes -down -root %s\n",
			quoted(string(j.base)))
		return
	}
	const limit = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	takeDown{console: j.console, base: j.base, place: j.place, plugins: j.plugins}.all(ctx)
}

func (j *job) upAndCheck(ctx context.Context) error {
	for _, v := range j.volumes {
		if err := v.mounter.SetUp(ctx, v.args); err != nil {
			return v.refuse(v.inDocument(fmt.Errorf("set up: %w", v.hintOwners(err))))
		}
	}
	table, err := j.place.List(ctx)
	if err != nil {
		return err
	}
	j.printf("%s", j.table(mount.Table(table)))
	for _, v := range j.volumes {
		if err := j.check(v, mount.Table(table)); err != nil {
			return fmt.Errorf("volume %s: %w", v.name, err)
		}
	}
	return j.linger(ctx)
}

// linger keeps the volumes up for somebody who wants to look at them.
func (j *job) linger(ctx context.Context) error {
	if j.wait > 0 {
		j.printf("Waiting for %v; an interrupt ends it.\n", j.wait)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(j.wait):
		return nil
	}
}

// quoted is a word as the shell takes it.
func quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
