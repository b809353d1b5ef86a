package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/volume"
)

// A node recycles its volume in this process.
type node struct {
	teller
	base
	mount.Interface
	*recycler.Local
}

// inProcess shows it in a directory that is gone afterwards.
func inProcess(ctx context.Context, t teller, files int) (err error) {
	dir, err := os.MkdirTemp("", "recycle-")
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx), dir)) }()
	n := &node{teller: t, base: base(dir), Interface: mount.New(mount.Config{})}
	if err := errors.Join(n.fill(files), n.init()); err != nil {
		return err
	}
	t.say("Volume pv-a: %d files, %d directories in one another, and a symbolic link and a hard link out of it.", files, deep)
	if err := n.refused(ctx); err != nil {
		return err
	}
	return n.recycled(ctx)
}

func (n *node) init() error {
	host, err := volume.NewHost(n.root())
	if err != nil {
		return err
	}
	mgr, err := volume.NewVolumePluginMgr(host, local.New(local.Config{Mounter: n, Roots: []string{n.disks()}}))
	if err != nil {
		return err
	}
	n.Local, err = recycler.NewLocal(recycler.LocalConfig{Host: host, Plugin: mgr.FindPluginBySpec, Progress: n.progress})
	return err
}

func (n *node) progress(name string, counts scrub.Counts) {
	n.say("%s: removed %d files and %d directories", name, counts.Files, counts.Directories)
}

// refused recycles while something is mounted in the volume.
func (n *node) refused(ctx context.Context) error {
	before, err := n.names()
	if err != nil {
		return err
	}
	tmpfs := filepath.Join(n.volume(), "d")
	if err := n.Mount(ctx, mount.Request{Source: "tmpfs", Target: tmpfs, FSType: "tmpfs"}); err != nil {
		return err
	}
	refusal := n.Recycle(ctx, "pv-a", n.spec())
	err = n.Unmount(context.WithoutCancel(ctx), tmpfs)
	if err != nil || !errors.Is(refusal, mount.ErrSubmounts) {
		return fmt.Errorf("with a tmpfs in it: %w", errors.Join(errNotRefused, refusal, err))
	}
	n.say("With a tmpfs in it, refused: %v", refusal)
	after, err := n.names()
	n.say("Of %d names in the volume %d are left.", before, after)
	return errors.Join(err, unless(after == before, "refused, and not as it was"))
}

var errNotRefused = errors.New("expected to be refused, and to take it down")

func (n *node) recycled(ctx context.Context) error {
	if err := n.Recycle(ctx, "pv-a", n.spec()); err != nil {
		return err
	}
	names, err := n.names()
	if err = errors.Join(err, unless(names == 0, "recycled, and not empty")); err != nil {
		return err
	}
	canary, err := os.ReadFile(n.canary())
	if err = errors.Join(err, unless(string(canary) == precious, "the file outside is another")); err != nil {
		return err
	}
	n.say("Recycled: the volume is empty, and the file outside that the links lead to is whole.")
	table, err := n.List(ctx)
	for _, info := range table {
		err = errors.Join(err, unless(!strings.HasPrefix(info.Mountpoint, string(n.base)+"/"), "left mounted: "+info.Mountpoint))
	}
	if err == nil {
		n.say("Nothing is left mounted.")
	}
	return err
}

func unless(ok bool, text string) error {
	if ok {
		return nil
	}
	return errors.New(text)
}

// remove removes the program's own directory, and nothing that is mounted there.
func remove(ctx context.Context, dir string) error {
	root, err := scrub.Open(dir)
	if err != nil {
		return err
	}
	_, err = root.Empty(ctx, scrub.Options{})
	return errors.Join(err, root.Close(), os.Remove(dir))
}
