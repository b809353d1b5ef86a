package main

import (
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/volumekit/volumekit/mount"
	"golang.org/x/sys/unix"
)

// measureConcurrency binds and unmounts from many goroutines at once, each on a target of
// its own. Failures count, and do not end the work.
func measureConcurrency(b *bench) error {
	n, err := newNode(b.dir)
	if err != nil {
		return err
	}
	for _, goroutines := range []int{8, 64} {
		var targets []string
		for i := range goroutines {
			targets = append(targets, filepath.Join(n.pods, "target-"+strconv.Itoa(i)))
		}
		if err := makeAll(targets...); err != nil {
			return err
		}
		err := b.measure(trial{
			work: "bind + unmount on different targets, N goroutines",
			size: goroutines,
			ours: together(targets, 16, func(target string) error {
				if err := n.ours.Mount(b.ctx, mount.Request{Source: n.source(), Target: target}); err != nil {
					return err
				}
				return n.ours.Unmount(b.ctx, target)
			}),
			peer: together(targets, 1, func(target string) error {
				if err := n.peer.Mount(n.source(), target, "", []string{"bind"}); err != nil {
					return err
				}
				return n.peer.Unmount(target)
			}),
			floor: together(targets, 16, func(target string) error {
				if err := unix.Mount(n.source(), target, "", unix.MS_BIND, ""); err != nil {
					return err
				}
				return unix.Unmount(target, 0)
			}),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// together does the work on all targets at the same time, several times on each.
func together(targets []string, times int, work func(target string) error) side {
	var failures atomic.Int64
	return side{
		per:    len(targets) * times,
		failed: func() int { return int(failures.Swap(0)) },
		up: func() error {
			var all sync.WaitGroup
			for _, target := range targets {
				all.Go(func() {
					for range times {
						if work(target) != nil {
							failures.Add(1)
						}
					}
				})
			}
			all.Wait()
			return nil
		},
		seen: func() (string, error) {
			for _, target := range targets {
				if mounted, err := rawIsMountPoint(target); err != nil || mounted {
					return target + " is left mounted", err
				}
			}
			return "nothing is left mounted", nil
		},
	}
}
