package main

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mountutils"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	peer "k8s.io/mount-utils"
)

// measureRestart lets a manager mount one local volume for many pods, and measures another
// manager after a restart, until it has found all of them again. Figures are per volume. The
// peer is k8s.io/mount-utils under the same plugin. The floor reads the directories of each pod,
// and checks whether its volume is mounted.
func measureRestart(b *bench) error {
	for _, count := range []int{100, 1_000, 10_000} {
		if count > b.mounts[len(b.mounts)-1] {
			continue
		}
		if err := measureRestartOf(b, count); err != nil {
			return err
		}
	}
	return nil
}

func measureRestartOf(b *bench, count int) error {
	dir := filepath.Join(b.dir, strconv.Itoa(count))
	var pods []*v1.Pod
	for i := range count {
		pods = append(pods, sharingPod(i))
	}
	first, err := newPodNode(b.ctx, dir, mount.New(mount.Config{}))
	if err != nil {
		return err
	}
	if err := first.start(b.ctx); err != nil {
		return err
	}
	if err := first.bringUp(b.ctx, pods); err != nil {
		return err
	}
	if err := first.stop(); err != nil {
		return err
	}
	again := func(mounter func() mount.Interface) side {
		var n *podNode
		return side{
			per: count,
			prepare: func() (err error) {
				n, err = newPodNode(b.ctx, dir, mounter())
				return err
			},
			up: func() error {
				if err := n.start(b.ctx); err != nil {
					return err
				}
				return n.bringUp(b.ctx, pods)
			},
			seen: func() (string, error) { return n.seen() },
			tidy: func() error { return n.stop() },
		}
	}
	t := trial{
		work:      "restart, per volume, N pods that share a local volume",
		size:      count,
		rounds:    3,
		uncounted: count > 1000,
		ours:      again(func() mount.Interface { return mount.New(mount.Config{}) }),
		floor:     side{per: count, up: func() error { return rawRestart(first.root, count) }},
	}
	if count <= 1000 { // the peer would need minutes for more
		t.peer = again(func() mount.Interface { return mountutils.From(peer.NewWithoutSystemd("")) })
	}
	return b.measure(t)
}

// sharingPod returns a pod whose only volume is the disk that all pods share.
func sharingPod(i int) *v1.Pod {
	pod := benchPod(i)
	pod.Spec.Volumes = pod.Spec.Volumes[1:2]
	pod.Spec.Containers[0].VolumeMounts = pod.Spec.Containers[0].VolumeMounts[1:2]
	return pod
}

func rawRestart(root string, count int) error {
	buffer := make([]byte, 4096)
	for i := range count {
		dir := fmt.Sprintf("%s/pods/uid-%d/volumes", root, i)
		for _, below := range []string{"", "/kubernetes.io~local-volume"} {
			dir += below
			if err := rawReadDir(dir, buffer); err != nil {
				return err
			}
		}
		if mounted, err := rawIsMountPoint(dir + "/shared"); err != nil || !mounted {
			return fmt.Errorf("%s, mounted: %v: %w", dir, mounted, err)
		}
	}
	return nil
}

func rawReadDir(dir string, buffer []byte) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for n := 1; n > 0 && err == nil; {
		n, err = unix.Getdents(fd, buffer)
	}
	_ = unix.Close(fd)
	return err
}
