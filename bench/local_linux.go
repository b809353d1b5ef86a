package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	peer "k8s.io/mount-utils"
)

// measureLocal sets a local volume up for a pod, and tears it down. The peer makes the calls
// of the kubelet's plugin for local volumes. The floor creates, mounts, unmounts and removes a
// directory.
func measureLocal(b *bench) error {
	n, err := newNode(b.dir)
	if err != nil {
		return err
	}
	host, err := volume.NewHost(b.ctx, n.pods)
	if err != nil {
		return err
	}
	plugin := local.New(local.Config{Mounter: n.ours, Roots: []string{n.disk}})
	if _, err = volume.NewVolumePluginMgr(b.ctx, host, plugin); err != nil {
		return err
	}
	ours, theirs, raw := n.volumeDir("ours"), n.volumeDir("peer"), n.volumeDir("floor")
	if err := makeAll(filepath.Dir(raw)); err != nil {
		return err
	}
	volume := localVolume{b: b, plugin: plugin, source: n.source(), uid: "ours"}
	return b.measureInCrowds(n, b.mounts, trial{
		work: "local volume up + down, N mounts",
		ours: side{up: volume.setUp, down: volume.tearDown, seen: mountState(ours)},
		peer: side{
			up:   func() error { return n.peerSetUp(theirs) },
			down: func() error { return peer.CleanupMountPoint(theirs, n.peer, true) },
			seen: mountState(theirs),
		},
		floor: side{
			up:   func() error { return rawSetUp(n.source(), raw) },
			down: func() error { return rawTearDown(raw) },
			seen: mountState(raw),
		},
	})
}

func (n *node) volumeDir(uid string) string {
	return filepath.Join(n.pods, "pods", uid, "volumes/kubernetes.io~local-volume/pv")
}

// A localVolume is a local volume of one pod.
type localVolume struct {
	b      *bench
	plugin *local.Plugin
	source string
	uid    types.UID
}

func (v localVolume) setUp() error {
	spec := volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: v.source}},
		},
	}, false)
	mounter, err := v.plugin.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: v.uid}})
	if err != nil {
		return err
	}
	return mounter.SetUp(v.b.ctx, volume.MounterArgs{})
}

func (v localVolume) tearDown() error {
	unmounter, err := v.plugin.NewUnmounter("pv", v.uid)
	if err != nil {
		return err
	}
	return unmounter.TearDown(v.b.ctx)
}

func (n *node) peerSetUp(dir string) error {
	//lint:ignore SA1019 the kubelet calls it
	if _, err := peer.IsNotMountPoint(n.peer, dir); err != nil && !os.IsNotExist(err) {
		return err
	}
	if _, err := n.peer.GetMountRefs(n.source()); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return n.peer.MountSensitiveWithoutSystemd(n.source(), dir, "", []string{"bind"}, nil)
}

func rawSetUp(source, dir string) error {
	if err := unix.Mkdir(dir, 0o750); err != nil {
		return fmt.Errorf("mkdir: %w", err)
	}
	return unix.Mount(source, dir, "", unix.MS_BIND, "")
}

func rawTearDown(dir string) error { return errors.Join(unix.Unmount(dir, 0), unix.Rmdir(dir)) }
