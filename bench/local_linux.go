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

// measureLocal sets a local volume up for a new pod each time, and tears it down, in memory and on
// disk. The peer makes the calls of the kubelet's plugin for local volumes. The floor creates the
// directories, mounts, unmounts, and removes the last one.
func measureLocal(b *bench) error {
	n, err := newNode(b.dir)
	if err != nil {
		return err
	}
	if err := measureLocalOn(b, n, "local volume of a new pod, up + down, N mounts", b.mounts); err != nil {
		return err
	}
	if err := n.close(); err != nil {
		return err
	}
	if n, err = newDiskNode(b.dir); err != nil {
		return err
	}
	return measureLocalOn(b, n, "local volume of a new pod, pods on "+kindOfDisk(b.dir)+", up + down, N mounts", b.mounts[:1])
}

func measureLocalOn(b *bench, n *node, work string, mounts []int) error {
	host, err := volume.NewHost(b.ctx, n.pods)
	if err != nil {
		return err
	}
	plugin := local.New(local.Config{Mounter: n.ours, Roots: []string{n.disk}})
	if _, err = volume.NewVolumePluginMgr(b.ctx, host, plugin); err != nil {
		return err
	}
	if err := makeAll(filepath.Join(n.pods, "pods")); err != nil {
		return err
	}
	ours, theirs, raw := podSeries{root: n.pods, side: "ours"}, podSeries{root: n.pods, side: "peer"}, podSeries{root: n.pods, side: "floor"}
	v := localVolume{b: b, plugin: plugin, source: n.source()}
	return b.measureInCrowds(n, mounts, trial{
		work: work,
		ours: ours.trialSide(func() error { return v.setUp(ours.uid()) }, func() error { return v.tearDown(ours.uid()) }),
		peer: theirs.trialSide(
			func() error { return n.peerSetUp(theirs.volumeDir()) },
			func() error { return peer.CleanupMountPoint(theirs.volumeDir(), n.peer, true) },
		),
		floor: raw.trialSide(
			func() error { return raw.rawSetUp(n.source()) },
			func() error { return rawTearDown(raw.volumeDir()) },
		),
	})
}

// A podSeries is the pods of one side: a new one for each set-up. Their directories stay.
type podSeries struct {
	root, side string
	serial     int
}

func (p *podSeries) uid() types.UID { return types.UID(fmt.Sprint(p.side, p.serial)) }

func (p *podSeries) podDir() string    { return filepath.Join(p.root, "pods", string(p.uid())) }
func (p *podSeries) pluginDir() string { return p.podDir() + "/volumes/kubernetes.io~local-volume" }
func (p *podSeries) volumeDir() string { return p.pluginDir() + "/pv" }

// rawSetUp creates the directories of the pod and binds the volume.
func (p *podSeries) rawSetUp(source string) error {
	for _, dir := range []string{p.podDir(), filepath.Dir(p.pluginDir()), p.pluginDir()} {
		if err := unix.Mkdir(dir, 0o750); err != nil {
			return fmt.Errorf("mkdir: %w", err)
		}
	}
	return rawSetUp(source, p.volumeDir())
}

func (p *podSeries) trialSide(setUp, tearDown func() error) side {
	return side{
		up: func() error {
			p.serial++
			return setUp()
		},
		down: tearDown,
		seen: func() (string, error) { return mountState(p.volumeDir())() },
	}
}

// A localVolume is a local volume of a pod.
type localVolume struct {
	b      *bench
	plugin *local.Plugin
	source string
}

func (v localVolume) setUp(uid types.UID) error {
	spec := volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: v.source}},
		},
	}, false)
	mounter, err := v.plugin.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
	if err != nil {
		return err
	}
	return mounter.SetUp(v.b.ctx, volume.MounterArgs{})
}

func (v localVolume) tearDown(uid types.UID) error {
	unmounter, err := v.plugin.NewUnmounter("pv", uid)
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
