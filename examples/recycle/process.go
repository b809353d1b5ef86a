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
	progressPrinter
	base
	mount.Interface
	*recycler.Local
}

// inProcess recycles in a temporary directory.
func inProcess(ctx context.Context, t progressPrinter, files int) (err error) {
	dir, err := os.MkdirTemp("", "recycle-")
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx), dir)) }()
	n := &node{progressPrinter: t, base: base(dir), Interface: mount.New(mount.Config{})}
	if err := errors.Join(n.fill(files), n.init(ctx)); err != nil {
		return err
	}
	t.printf("Volume pv-a: %d files, %d directories in one another, and a symbolic link and a hard link out of it.", files, deep)
	if err := n.requireRefusal(ctx); err != nil {
		return err
	}
	return n.requireRecycled(ctx)
}

func (n *node) init(ctx context.Context) error {
	host, err := volume.NewHost(ctx, n.root())
	if err != nil {
		return err
	}
	mgr, err := volume.NewVolumePluginMgr(ctx, host, local.New(local.Config{Mounter: n, Roots: []string{n.disks()}}))
	if err != nil {
		return err
	}
	n.Local, err = recycler.NewLocal(recycler.LocalConfig{Host: host, Plugin: mgr.FindPluginBySpec, Progress: n.progress})
	return err
}

func (n *node) progress(name string, counts scrub.Counts) {
	n.printf("%s: removed %d files and %d directories", name, counts.Files, counts.Directories)
}

// requireRefusal recycles while a tmpfs is mounted in the volume.
func (n *node) requireRefusal(ctx context.Context) error {
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
		return fmt.Errorf("recycle a volume with a tmpfs inside: %w", errors.Join(errNotRefused, refusal, err))
	}
	n.printf("With a tmpfs in it, refused: %v", refusal)
	after, err := n.names()
	n.printf("Of %d names in the volume %d are left.", before, after)
	return errors.Join(err, errorUnless(after == before, "a refused recycling has changed the volume"))
}

var errNotRefused = errors.New("expected mount.ErrSubmounts, and the tmpfs to be unmounted")

func (n *node) requireRecycled(ctx context.Context) error {
	if err := n.Recycle(ctx, "pv-a", n.spec()); err != nil {
		return err
	}
	names, err := n.names()
	if err = errors.Join(err, errorUnless(names == 0, "recycled, and not empty")); err != nil {
		return err
	}
	canary, err := os.ReadFile(n.canary())
	if err = errors.Join(err, errorUnless(string(canary) == precious, "the file outside is another")); err != nil {
		return err
	}
	n.printf("Recycled: the volume is empty, and the file outside that the links lead to is whole.")
	table, err := n.List(ctx)
	for _, info := range table {
		err = errors.Join(err, errorUnless(!strings.HasPrefix(info.Mountpoint, string(n.base)+"/"), "left mounted: "+info.Mountpoint))
	}
	if err == nil {
		n.printf("Nothing is left mounted.")
	}
	return err
}

func errorUnless(ok bool, text string) error {
	if ok {
		return nil
	}
	return errors.New(text)
}

// remove removes the program's own directory, but not through a mount.
func remove(ctx context.Context, dir string) error {
	root, err := scrub.Open(ctx, dir)
	if err != nil {
		return err
	}
	_, err = root.Empty(ctx, scrub.Options{})
	return errors.Join(err, root.Close(), os.Remove(dir))
}
