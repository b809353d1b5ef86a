package flexvolume

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
)

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){
		"up":   func(p mounttest.Process) { killedNode(p, p.Args[0], p.Args[1]).requireUp(p) },
		"down": func(p mounttest.Process) { killedNode(p, p.Args[0], p.Args[1]).requireDown(p) },
	})
}

// A killed is the node of a process that is killed. The driver of the process mounts in two steps: the second is
// the file "prepared" in the volume.
type killed struct {
	*node
	driver *fakeDriver
	spec   *volume.Spec
}

func killedNode(t require.TestingT, dir, attach string) *killed {
	isAttached, err := strconv.ParseBool(attach)
	require.NoError(t, err)
	volumes := filepath.Join(dir, "volumes")
	require.NoError(t, os.MkdirAll(filepath.Join(volumes, "pv"), 0o755))
	mounter := mount.New(mount.Config{})
	d := &fakeDriver{dir: volumes, mounter: mounter, attach: isAttached, attached: map[string]bool{}, sizes: map[string]int64{}}
	if isAttached {
		d.lacks = []string{"mount", "unmount"}
	}
	d.before = func(ctx context.Context, args []string) (string, error) {
		switch args[0] {
		case "mount", "mountdevice":
			if isAttached != (args[0] == "mountdevice") {
				return "", nil
			}
			if err := d.bind(ctx, args[1], args[len(args)-1]); err != nil {
				return "", err
			}
			return `{"status": "Success"}`, os.WriteFile(args[1]+"/prepared", nil, 0o600)
		case "unmount", "unmountdevice":
			if args[0] == "unmount" && isAttached {
				return "", nil
			}
			if err := os.Remove(args[1] + "/prepared"); err != nil && !os.IsNotExist(err) {
				return "", err
			}
			return `{"status": "Success"}`, util.UnmountMountPoint(ctx, mounter, args[1], util.KeepDirectory())
		}
		return "", nil
	}
	return &killed{newNode(t, dir, mounter, d.plugin()), d, pv("pv", nil)}
}

// device returns the mounter of the device and its path, or nil.
func (k *killed) device(t require.TestingT) (*deviceMounter, string) {
	if !k.driver.attach {
		return nil, ""
	}
	m, err := k.plugin.deviceMounter()
	require.NoError(t, err)
	path, err := m.GetDeviceMountPath(k.spec)
	require.NoError(t, err)
	return m, path
}

func (k *killed) requireUp(t require.TestingT) {
	if m, path := k.device(t); m != nil {
		require.NoError(t, m.MountDevice(context.Background(), k.spec, path, volume.DeviceMounterArgs{}))
	}
	require.NoError(t, k.mounterOf(t, k.spec).SetUp(context.Background(), volume.MounterArgs{}))
}

func (k *killed) requireDown(t require.TestingT) {
	require.NoError(t, k.unmounterOf(t, k.spec).TearDown(context.Background()))
	if m, path := k.device(t); m != nil {
		require.NoError(t, m.UnmountDevice(context.Background(), path))
	}
}

// TestKilled: after SIGKILL at any place the same call again completes the volume, and its tear-down leaves nothing.
func TestKilled(t *testing.T) {
	for _, attach := range []string{"false", "true"} {
		for _, verb := range []string{"up", "down"} {
			t.Run(verb+"/attach="+attach, func(t *testing.T) {
				if mounttest.Namespace(t) {
					testKilled(t, verb, attach)
				}
			})
		}
	}
}

func testKilled(t *testing.T, verb, attach string) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	k := killedNode(t, dir, attach)
	program := func() *exec.Cmd {
		k.requireDown(t)
		require.NoError(t, os.RemoveAll(k.root+"/pods"))
		require.NoError(t, os.RemoveAll(k.root+"/plugins"))
		if verb == "down" {
			k.requireUp(t)
		}
		return mounttest.Program(verb, dir, attach)
	}
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		next := killedNode(t, dir, attach)
		defer func() { require.NoError(t, next.mounter.(*mount.Mounter).Close()) }()
		next.requireUp(t)
		require.FileExists(t, filepath.Join(next.driver.dir, "pv", "prepared"), "%s: the driver's call ended in part", place)
		require.FileExists(t, next.mounterOf(t, next.spec).GetPath()+"/prepared", place)
		next.requireDown(t)
		require.Empty(t, next.mounts(t), place)
		requireSwept(t, next.root, place)
	})
	require.Positive(t, kills)
}

// requireSwept requires that the host's root has directories alone, without those of volumes.
func requireSwept(t *testing.T, root, place string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
		require.NoError(t, err, place)
		require.True(t, entry.IsDir(), "%s: %s is left", place, name)
		require.False(t, strings.HasSuffix(name, "/pv"), "%s: %s is left", place, name)
		return nil
	}))
}
