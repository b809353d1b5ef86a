package main

import (
	"context"

	"github.com/volumekit/volumekit/mount"
	"golang.org/x/sys/unix"
)

// measureBind binds a directory and unmounts it.
func measureBind(b *bench) error {
	n, err := newNode(b.dir)
	if err != nil {
		return err
	}
	never := context.Background()
	err = b.measureInCrowds(n, b.mounts,
		n.bind(never, "bind + unmount, N mounts"),
		n.bind(b.ctx, "bind + unmount, with a context that can end, N mounts"),
		n.bind(never, "read-only bind + unmount, N mounts", "ro"),
	)
	if err != nil {
		return err
	}
	if err := n.close(); err != nil {
		return err
	}
	if n, err = newNodeWith(b.dir, "disk"); err != nil {
		return err
	}
	return b.measureInCrowds(n, smallestAndLargest(b.mounts), n.bind(never, "bind + unmount, N mounts in the source's file system"))
}

func (n *node) bind(ctx context.Context, work string, options ...string) trial {
	source, target := n.source(), n.target()
	seen := mountState(target)
	return trial{
		work: work,
		ours: side{
			up: func() error {
				return n.ours.Mount(ctx, mount.Request{Source: source, Target: target, Options: options})
			},
			down: func() error { return n.ours.Unmount(ctx, target) },
			seen: seen,
		},
		peer: side{
			up:   func() error { return n.peer.Mount(source, target, "", append([]string{"bind"}, options...)) },
			down: func() error { return n.peer.Unmount(target) },
			seen: seen,
		},
		floor: side{
			up:   func() error { return rawBind(source, target, len(options) > 0) },
			down: func() error { return unix.Unmount(target, 0) },
			seen: seen,
		},
	}
}

// rawBind checks nothing and follows every link.
func rawBind(source, target string, readOnly bool) error {
	err := unix.Mount(source, target, "", unix.MS_BIND, "")
	if err == nil && readOnly {
		err = unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	return err
}
