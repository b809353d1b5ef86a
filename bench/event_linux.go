package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/volumekit/volumekit/mount"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// measureEvent lets a manager with many volumes mount further ones, while another process
// mounts and unmounts ten times a second. It measures the latency from the event to the end
// of the wait for the mount, and the cost of each foreign mount and unmount to this process.
// There is no peer. The floor creates a directory and mounts it.
func measureEvent(b *bench) error {
	volumes := b.mounts[len(b.mounts)-1]
	n, err := newPodNode(b.ctx, b.dir, mount.New(mount.Config{}))
	if err != nil {
		return err
	}
	if err := n.start(b.ctx); err != nil {
		return err
	}
	var pods []*v1.Pod
	for i := range volumes {
		pods = append(pods, sharingPod(i))
	}
	if err := n.bringUp(b.ctx, pods); err != nil {
		return err
	}
	foreign, raw := filepath.Join(b.dir, "foreign"), filepath.Join(b.dir, "floor")
	if err := makeAll(foreign, raw); err != nil {
		return err
	}
	stop, err := startAll(1, foreignMounterRole+foreign)
	defer stop()
	if err != nil {
		return err
	}
	time.Sleep(time.Second) // until the manager is idle
	if err := b.foreignMounts(volumes); err != nil {
		return err
	}
	if err := b.moreVolumes(n, raw, volumes); err != nil {
		return err
	}
	return n.stop()
}

// A stranger is a process that mounts and unmounts at a rate.
const (
	foreignMounterRole = "stranger:"
	perSecond          = 10
)

// mountRepeatedly binds a directory to itself, and unmounts it, until its process is killed.
func mountRepeatedly(ctx context.Context, dir string) error {
	for ctx.Err() == nil {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		time.Sleep(time.Second / perSecond / 2)
		if err := unix.Unmount(dir, 0); err != nil {
			return err
		}
		time.Sleep(time.Second / perSecond / 2)
	}
	return nil
}

// foreignMounts measures the processor time per mount and unmount of the stranger.
func (b *bench) foreignMounts(volumes int) error {
	const seconds = 3
	used := processorTime()
	time.Sleep(seconds * time.Second)
	each := (processorTime() - used) / (seconds * perSecond)
	return b.out.Encode(Row{
		Subject: b.subject, Work: "a foreign mount + unmount, 10 a second, N volumes", Size: volumes,
		Ours: Figures{CPU: microseconds(each)},
	})
}

// moreVolumes measures the latency of one more volume, for one pod after another.
func (b *bench) moreVolumes(n *podNode, raw string, volumes int) error {
	const samples = 300
	var ours, floor, cpu []float64
	for i := range samples {
		begin := time.Now()
		if err := rawSetUp(filepath.Join(b.dir, "disks/shared"), filepath.Join(raw, "one")); err != nil {
			return err
		}
		floor = append(floor, microseconds(time.Since(begin)))
		if err := rawTearDown(filepath.Join(raw, "one")); err != nil {
			return err
		}
		time.Sleep(3 * time.Millisecond) // until the manager has read these mounts
		pod := sharingPod(volumes + i)
		used, begin := processorTime(), time.Now()
		if err := n.bringUp(b.ctx, []*v1.Pod{pod}); err != nil {
			return err
		}
		ours = append(ours, microseconds(time.Since(begin)))
		cpu = append(cpu, microseconds(processorTime()-used))
	}
	calls, err := countCalls(func() error { return n.bringUp(b.ctx, []*v1.Pod{sharingPod(volumes + samples)}) })
	if err != nil && !errors.Is(err, errNoTracing) {
		return err
	}
	for _, row := range []struct {
		name string
		p    float64
	}{{"p50", 50}, {"p99", 99}} {
		err := b.out.Encode(Row{
			Subject: b.subject, Work: "one more pod until mounted, " + row.name + ", N volumes", Size: volumes,
			Ours:  Figures{Time: percentile(ours, row.p), CPU: percentile(cpu, row.p), Calls: float64(calls)},
			Floor: &Figures{Time: percentile(floor, row.p)},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
