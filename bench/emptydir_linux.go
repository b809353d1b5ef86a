package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	peer "k8s.io/mount-utils"
)

// measureEmptyDir sets an emptyDir up and tears it down, on disk and in memory. The peer makes
// the kubelet's steps.
func measureEmptyDir(b *bench) error {
	host, err := volume.NewHost(b.ctx, b.dir)
	if err != nil {
		return err
	}
	mounter := mount.New(mount.Config{StagingDir: filepath.Join(b.dir, "staging")})
	plugin := emptydir.New(emptydir.Config{Mounter: mounter})
	if err := plugin.Init(b.ctx, host); err != nil {
		return err
	}
	for _, medium := range []v1.StorageMedium{v1.StorageMediumDefault, v1.StorageMediumMemory} {
		name := "in memory"
		if medium == v1.StorageMediumDefault {
			name = "on " + kindOfDisk(b.dir)
		}
		for _, files := range []int{0, 100} {
			if err := measureMedium(b, plugin, medium, name, files); err != nil {
				return err
			}
		}
	}
	return mounter.Close()
}

// A scratch is an emptyDir of one pod.
type scratch struct {
	dir      string
	up, down func() error
}

// measureMedium measures set-up and tear-down of empty volumes, and the tear-down of others.
func measureMedium(b *bench, p *emptydir.Plugin, medium v1.StorageMedium, name string, files int) error {
	ours, err := ourScratch(b.ctx, p, medium)
	if err != nil {
		return err
	}
	memory := medium == v1.StorageMediumMemory
	kubelet := scratchPeer{mounter: peer.NewWithoutSystemd(""), pod: filepath.Join(b.dir, "pods/peer"), memory: memory}
	raw := filepath.Join(b.dir, "pods/floor/volumes/kubernetes.io~empty-dir/scratch")
	if err := makeAll(filepath.Dir(raw)); err != nil {
		return err
	}
	t := trial{
		work: "emptyDir " + name + ", up + down",
		ours: ours.side(files),
		peer: scratch{kubelet.volume(), kubelet.setUp, kubelet.tearDown}.side(files),
		floor: scratch{raw, func() error { return rawScratch(raw, memory) }, func() error {
			return rawScratchDown(raw, memory, files)
		}}.side(files),
	}
	if files > 0 {
		t.work, t.size = "emptyDir "+name+", down, N files", files
	}
	return b.measure(t)
}

func (s scratch) side(files int) side {
	seen := func() (string, error) {
		info, err := os.Stat(s.dir)
		if errors.Is(err, os.ErrNotExist) {
			return "nothing", nil
		}
		if err != nil {
			return "", err
		}
		mounted, err := rawIsMountPoint(s.dir)
		return fmt.Sprint(info.Mode(), mounted, kindOfDisk(s.dir)), err
	}
	if files == 0 {
		return side{up: s.up, down: s.down, seen: seen}
	}
	prepare := func() error {
		if err := s.up(); err != nil {
			return err
		}
		for i := range files {
			if err := os.WriteFile(filepath.Join(s.dir, strconv.Itoa(i)), []byte("scratch"), 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	return side{prepare: prepare, up: s.down, seen: seen}
}

func ourScratch(ctx context.Context, p *emptydir.Plugin, medium v1.StorageMedium) (scratch, error) {
	const uid types.UID = "ours"
	spec := volume.NewSpecFromVolume(&v1.Volume{
		Name:         "scratch",
		VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium}},
	})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	first, err := p.NewMounter(spec, pod)
	if err != nil {
		return scratch{}, err
	}
	return scratch{
		dir: first.GetPath(),
		up: func() error {
			mounter, err := p.NewMounter(spec, pod)
			if err != nil {
				return err
			}
			return mounter.SetUp(ctx, volume.MounterArgs{})
		},
		down: func() error {
			unmounter, err := p.NewUnmounter("scratch", uid)
			if err != nil {
				return err
			}
			return unmounter.TearDown(ctx)
		},
	}, nil
}

// A scratchPeer makes the kubelet's steps, as its documentation describes them: it checks
// whether the directory is mounted, and whether a marker says that it is ready; creates it,
// or mounts a tmpfs; sets the mode, and creates the marker. Then it removes the marker, checks
// the type of the directory, unmounts, and removes all.
type scratchPeer struct {
	mounter peer.Interface
	pod     string
	memory  bool
}

func (p scratchPeer) volume() string {
	return filepath.Join(p.pod, "volumes/kubernetes.io~empty-dir/scratch")
}

func (p scratchPeer) meta() string {
	return filepath.Join(p.pod, "plugins/kubernetes.io~empty-dir/scratch")
}

func (p scratchPeer) setUp() error {
	notMounted, err := p.mounter.IsLikelyNotMountPoint(p.volume())
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	ready := filepath.Join(p.meta(), "ready")
	if info, err := os.Stat(ready); err == nil && info.Mode().IsRegular() && (!p.memory || !notMounted) {
		return nil
	}
	if err := p.makeDir(); err != nil {
		return err
	}
	if p.memory {
		var fs unix.Statfs_t // the medium of the directory
		if err := unix.Statfs(p.volume(), &fs); err != nil {
			return err
		}
		if _, err := p.mounter.IsLikelyNotMountPoint(p.volume()); err != nil {
			return err
		}
		if err := p.mounter.MountSensitiveWithoutSystemd("tmpfs", p.volume(), "tmpfs", []string{"mode=777"}, nil); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(p.meta(), 0o750); err != nil {
		return err
	}
	marker, err := os.Create(ready)
	if err != nil {
		return err
	}
	return marker.Close()
}

// makeDir creates the directory, and sets the bits of its mode that the umask has cleared.
func (p scratchPeer) makeDir() error {
	const mode = 0o777
	if err := os.MkdirAll(p.volume(), mode); err != nil {
		return err
	}
	info, err := os.Lstat(p.volume())
	if err != nil || info.Mode().Perm() == mode {
		return err
	}
	if err := os.Chmod(p.volume(), mode); err != nil {
		return err
	}
	_, err = os.Lstat(p.volume())
	return err
}

func (p scratchPeer) tearDown() error {
	if err := os.RemoveAll(p.meta()); err != nil {
		return err
	}
	if _, err := peer.PathExists(p.volume()); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(p.volume(), &fs); err != nil {
		return err
	}
	notMounted, err := p.mounter.IsLikelyNotMountPoint(p.volume())
	if err != nil {
		return err
	}
	if !notMounted && fs.Type == unix.TMPFS_MAGIC {
		if err := p.mounter.Unmount(p.volume()); err != nil {
			return err
		}
	}
	return os.RemoveAll(p.volume())
}

func rawScratch(dir string, memory bool) error {
	if memory {
		return rawTmpfs(dir)
	}
	if err := unix.Mkdir(dir, 0o777); err != nil {
		return err
	}
	return unix.Chmod(dir, 0o777) // sets the bits that the umask has cleared
}

func rawTmpfs(dir string) error {
	if err := unix.Mkdir(dir, 0o777); err != nil {
		return err
	}
	return unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=777")
}

func rawScratchDown(dir string, memory bool, files int) error {
	if memory {
		return errors.Join(unix.Unmount(dir, 0), unix.Rmdir(dir))
	}
	for i := range files {
		if err := unix.Unlink(filepath.Join(dir, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return unix.Rmdir(dir)
}
