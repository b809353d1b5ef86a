package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/util/subpath"
	"golang.org/x/sys/unix"
	peer "k8s.io/mount-utils"
)

// measureSubpath binds a directory of a volume for a container, and cleans up. The peer makes
// the kubelet's steps; the floor creates, mounts, unmounts and removes directories.
func measureSubpath(b *bench) error {
	n, err := newNode(b.dir)
	if err != nil {
		return err
	}
	const inside = "some/directory"
	volume := n.source()
	pod := func(name string) string { return filepath.Join(n.pods, "pods", name) }
	if err := makeAll(filepath.Join(volume, inside), pod("ours"), pod("peer"), pod("floor")); err != nil {
		return err
	}
	request := subpath.Request{PodDir: pod("ours"), Volume: "data", Container: "c", VolumeDir: volume, Path: inside}
	kubelet := subpathPeer{mounter: n.peer, pod: pod("peer"), volume: volume}
	state := func(pod string) func() (string, error) {
		return mountState(filepath.Join(pod, "volume-subpaths/data/c/0"))
	}
	return b.measureInCrowds(n, smallestAndLargest(b.mounts), trial{
		work: "subpath bind + cleanup, N mounts",
		ours: side{
			up: func() error {
				_, err := subpath.Bind(context.Background(), n.ours, request)
				return err
			},
			down: func() error { return subpath.Cleanup(context.Background(), n.ours, request.PodDir, "data") },
			seen: state(pod("ours")),
		},
		peer: side{
			up:   func() error { return kubelet.bind(inside) },
			down: kubelet.cleanUp,
			seen: state(pod("peer")),
		},
		floor: side{
			up:   func() error { return rawSubpath(volume, inside, pod("floor")) },
			down: func() error { return rawSubpathCleanup(pod("floor")) },
			seen: state(pod("floor")),
		},
	})
}

// A subpathPeer binds a path inside a volume in the steps of the kubelet, as its documentation
// describes them: it resolves all links, opens the path again component by component without
// following links, and binds the descriptor by its name in /proc.
type subpathPeer struct {
	mounter     peer.Interface
	pod, volume string
}

var errOutside = errors.New("outside of the volume")

func (p subpathPeer) target() string { return filepath.Join(p.pod, "volume-subpaths/data/c/0") }

func (p subpathPeer) bind(path string) error {
	volume, err := filepath.EvalSymlinks(p.volume)
	if err != nil {
		return err
	}
	full, err := filepath.EvalSymlinks(filepath.Join(p.volume, path))
	if err != nil {
		return err
	}
	if !strings.HasPrefix(full+"/", volume+"/") {
		return errOutside
	}
	fd, err := openEach(volume, strings.Split(strings.TrimPrefix(full, volume+"/"), "/"))
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	//lint:ignore SA1019 the kubelet calls it
	if isNot, err := peer.IsNotMountPoint(p.mounter, p.target()); err != nil && !os.IsNotExist(err) || err == nil && !isNot {
		return errors.Join(err, errOtherWork)
	}
	if err := os.MkdirAll(p.target(), 0o750); err != nil {
		return err
	}
	source := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	return p.mounter.MountSensitiveWithoutSystemdWithMountFlags(source, p.target(), "", []string{"bind"}, nil, []string{"--no-canonicalize"})
}

// openEach opens the components of a path one by one, and refuses links.
func openEach(dir string, names []string) (int, error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(dir, flags, 0)
	if err != nil {
		return -1, err
	}
	for _, name := range names {
		next, err := unix.Openat(fd, name, flags, 0)
		_ = unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT == unix.S_IFLNK {
			_ = unix.Close(fd)
			return -1, errors.Join(err, errOutside)
		}
	}
	return fd, nil
}

func (p subpathPeer) cleanUp() error {
	volume := filepath.Join(p.pod, "volume-subpaths/data")
	containers, err := os.ReadDir(volume)
	if err != nil {
		return err
	}
	for _, c := range containers {
		dir := filepath.Join(volume, c.Name())
		err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err != nil || path == dir {
				return err
			}
			if err := peer.CleanupMountPoint(path, p.mounter, true); err != nil || !info.IsDir() {
				return err
			}
			return filepath.SkipDir
		})
		if err := errors.Join(err, os.Remove(dir)); err != nil {
			return err
		}
	}
	return errors.Join(os.Remove(volume), os.Remove(filepath.Dir(volume)))
}

func rawSubpath(volume, path, pod string) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, filepath.Join(volume, path), &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	dir := pod
	for _, name := range []string{"/volume-subpaths", "/data", "/c", "/0"} {
		dir += name
		if err := unix.Mkdir(dir, 0o750); err != nil {
			return err
		}
	}
	source := fmt.Sprintf("/proc/self/fd/%d", fd)
	return errors.Join(unix.Mount(source, dir, "", unix.MS_BIND, ""), unix.Close(fd))
}

func rawSubpathCleanup(pod string) error {
	dir := filepath.Join(pod, "volume-subpaths/data/c/0")
	err := unix.Unmount(dir, 0)
	for ; dir != pod && err == nil; dir = filepath.Dir(dir) {
		err = unix.Rmdir(dir)
	}
	return err
}
