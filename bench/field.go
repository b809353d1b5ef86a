package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	peer "k8s.io/mount-utils"
)

// A field is a node to measure on: a file system with a local disk, one with
// the directories of pods, and many mounts, which are in the pods' file system
// or, if it is crowded, in that of the disk. A bind mount takes the kernel the
// longer the more mounts there are in the file system of its source.
type field struct {
	ctx     context.Context
	crowded bool
	disk    string // the source
	pods    string // has the target
	many    string // has the mounts
	mounts  int
	ours    *mount.Mounter
	peer    peer.Interface
	plugin  *local.Plugin
}

func newField(ctx context.Context, dir string, crowded bool) (*field, error) {
	f := &field{
		ctx: ctx, crowded: crowded, ours: mount.New(mount.Config{}), peer: peer.New(""),
		disk: dir + "/disk", pods: dir + "/pods", many: dir + "/pods/many",
	}
	if crowded {
		f.many = dir + "/disk/many"
	}
	for _, fs := range []string{f.disk, f.pods} {
		if err := os.MkdirAll(fs, 0o755); err != nil {
			return nil, err
		}
		if err := f.ours.Mount(ctx, mount.Request{Source: "bench", Target: fs, FSType: "tmpfs"}); err != nil {
			return nil, err
		}
	}
	for _, d := range []string{f.source(), f.target(), f.many + "/source"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	return f, f.newPlugin()
}

func (f *field) newPlugin() error {
	host, err := volume.NewHost(f.pods)
	if err != nil {
		return err
	}
	f.plugin = local.New(local.Config{Mounter: f.ours, Roots: []string{f.disk}})
	_, err = volume.NewVolumePluginMgr(host, f.plugin)
	return err
}

func (f *field) source() string { return filepath.Join(f.disk, "source") }
func (f *field) target() string { return filepath.Join(f.pods, "target") }

// grow adds mounts until there are n.
func (f *field) grow(n int) error {
	for ; f.mounts < n; f.mounts++ {
		target := filepath.Join(f.many, strconv.Itoa(f.mounts))
		if err := os.Mkdir(target, 0o755); err != nil {
			return err
		}
		if err := f.ours.Mount(f.ctx, mount.Request{Source: f.many + "/source", Target: target}); err != nil {
			return err
		}
	}
	return nil
}

// close takes everything down, the newest mount first.
func (f *field) close() error {
	for f.mounts--; f.mounts >= 0; f.mounts-- {
		if err := f.ours.Unmount(f.ctx, filepath.Join(f.many, strconv.Itoa(f.mounts))); err != nil {
			return err
		}
	}
	for _, fs := range []string{f.pods, f.disk} {
		if err := util.UnmountPath(f.ctx, f.ours, fs); err != nil {
			return err
		}
	}
	return nil
}

// duels lists the work. The peer takes no context.
func (f *field) duels() []duel {
	never := context.Background()
	if f.crowded {
		const name = "bind + unmount, the source's file system holding the mounts"
		return []duel{{name, f.ourBind(never), f.peerBind("bind"), 20}}
	}
	return []duel{
		{"bind + unmount", f.ourBind(never), f.peerBind("bind"), 20},
		{"bind + unmount, with a context that can end", f.ourBind(f.ctx), f.peerBind("bind"), 20},
		{"read-only bind + unmount", f.ourBind(never, "ro"), f.peerBind("bind", "ro"), 20},
		{"is a mount point", f.ourQuestion(never), f.peerQuestion, 1000},
		{"is a mount point, with a context that can end", f.ourQuestion(f.ctx), f.peerQuestion, 1000},
		{"is no mount point", f.ourOtherQuestion, f.peerOtherQuestion, 1000},
		{"mount refs, with a context that can end", f.ourRefs, f.peerRefs, 20},
		{"local volume up + down, with a context that can end", f.ourVolume, f.peerVolume, 20},
	}
}

func (f *field) ourBind(ctx context.Context, options ...string) func() error {
	return func() error {
		req := mount.Request{Source: f.source(), Target: f.target(), Options: options}
		if err := f.ours.Mount(ctx, req); err != nil {
			return err
		}
		return f.ours.Unmount(ctx, f.target())
	}
}

func (f *field) peerBind(options ...string) func() error {
	return func() error {
		if err := f.peer.Mount(f.source(), f.target(), "", options); err != nil {
			return err
		}
		return f.peer.Unmount(f.target())
	}
}

func (f *field) ourQuestion(ctx context.Context) func() error {
	return func() error {
		is, err := f.ours.IsMountPoint(ctx, f.pods)
		return check(is, err, true)
	}
}

func (f *field) peerQuestion() error {
	is, err := f.peer.IsMountPoint(f.pods)
	return check(is, err, true)
}

func (f *field) ourOtherQuestion() error {
	is, err := f.ours.IsMountPoint(context.Background(), f.source())
	return check(is, err, false)
}

func (f *field) peerOtherQuestion() error {
	is, err := f.peer.IsMountPoint(f.source())
	return check(is, err, false)
}

func (f *field) ourRefs() error {
	_, err := f.ours.MountRefs(f.ctx, f.source())
	return err
}

func (f *field) peerRefs() error {
	_, err := f.peer.GetMountRefs(f.source())
	return err
}

var errWrongAnswer = errors.New("the wrong answer")

func check(is bool, err error, want bool) error {
	if err == nil && is != want {
		return errWrongAnswer
	}
	return err
}

func (f *field) ourVolume() error {
	spec := volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: f.source()}},
		},
	}, false)
	mounter, err := f.plugin.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}})
	if err != nil {
		return err
	}
	if err := mounter.SetUp(f.ctx, volume.MounterArgs{}); err != nil {
		return err
	}
	unmounter, err := f.plugin.NewUnmounter("pv", "1")
	if err != nil {
		return err
	}
	return unmounter.TearDown(f.ctx)
}

// peerVolume makes the calls that the kubelet's plugin for local volumes makes.
func (f *field) peerVolume() error {
	dir := filepath.Join(f.pods, "pods/2/volumes/kubernetes.io~local-volume/pv")
	//lint:ignore SA1019 it is what the kubelet calls
	if _, err := peer.IsNotMountPoint(f.peer, dir); err != nil && !os.IsNotExist(err) {
		return err
	}
	if _, err := f.peer.GetMountRefs(f.source()); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if err := f.peer.MountSensitiveWithoutSystemd(f.source(), dir, "", []string{"bind"}, nil); err != nil {
		return err
	}
	return peer.CleanupMountPoint(dir, f.peer, true)
}
