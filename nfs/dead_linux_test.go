package nfs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// given is the time that each call has.
	given = 500 * time.Millisecond
	// over is how much longer a call may take.
	over = 100 * time.Millisecond
	// tries is how often each is called at most: a machine that is busy with something
	// else may hold up some of the calls, but not all.
	tries = 8
)

// A deadNode has volumes of a server, mounted while it was alive.
type deadNode struct {
	*testing.T
	m      *mount.Mounter
	host   *volume.Host
	plugin *nfs.Plugin
	export string // the server's directory
	source string
	dir    string // for targets
	pods   int
}

func newDeadNode(t *testing.T, s *nfsserver.Server, export string) *deadNode {
	dir := t.TempDir()
	host, err := volume.NewHost(t.Context(), dir)
	require.NoError(t, err)
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: given / 5}})
	n := &deadNode{T: t, m: m, host: host, export: export, source: s.Source(export), dir: dir}
	n.plugin = nfs.New(nfs.Config{Mounter: n.m})
	require.NoError(t, n.plugin.Init(t.Context(), host))
	return n
}

func (n *deadNode) spec() *volume.Spec {
	server, path, _ := strings.Cut(n.source, ":")
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "volume"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: server, Path: path}},
			MountOptions:           unsharedOptions,
		},
	}, false)
}

// newPod returns the mounter and unmounter of a pod's volume that is not up.
func (n *deadNode) newPod() (volume.Mounter, volume.Unmounter) {
	n.Helper()
	n.pods++
	uid := types.UID(fmt.Sprintf("pod-%d", n.pods))
	mounter, err := n.plugin.NewMounter(n.spec(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
	require.NoError(n, err)
	unmounter, err := n.plugin.NewUnmounter("volume", uid)
	require.NoError(n, err)
	n.Cleanup(func() { n.eventually(func() error { return unmounter.TearDown(context.Background()) }) })
	return mounter, unmounter
}

// up sets a volume up for a new pod, and returns its mounter and unmounter.
func (n *deadNode) up() (volume.Mounter, volume.Unmounter) {
	n.Helper()
	mounter, unmounter := n.newPod()
	require.NoError(n, mounter.SetUp(n.Context(), volume.MounterArgs{}))
	return mounter, unmounter
}

// mountPoint returns a further mount point of the export.
func (n *deadNode) mountPoint() string {
	n.Helper()
	target := n.target()
	require.NoError(n, n.m.Mount(n.Context(), n.request(target)))
	return target
}

// unsharedOptions make each mount a file system of its own, which ends with it.
var unsharedOptions = []string{"nosharecache"}

func (n *deadNode) request(target string) mount.Request {
	return mount.Request{Source: n.source, Target: target, FSType: "nfs", Options: unsharedOptions, Helper: mount.HelperNever}
}

func (n *deadNode) target() string {
	n.Helper()
	target, err := os.MkdirTemp(n.dir, "target")
	require.NoError(n, err)
	n.Cleanup(func() {
		n.eventually(func() error { return util.UnmountMountPoint(context.Background(), n.m, target) })
	})
	return target
}

// eventually undoes something, as soon as the server has noticed that it is alive.
func (n *deadNode) eventually(undo func() error) {
	n.Helper()
	require.Eventually(n, func() bool { return undo() == nil }, 2*time.Minute, 50*time.Millisecond)
}

// busy keeps a file open in the mount until the test ends.
func (n *deadNode) busy(dir string) string {
	n.Helper()
	file, err := os.Open(dir)
	require.NoError(n, err)
	n.Cleanup(func() { _ = file.Close() })
	return dir
}

// A call runs while the server is dead; its preparations ran before.
type call func(ctx context.Context) error

// calls returns all calls that may need a server, each with its own preparation.
func calls() map[string]func(n *deadNode) call {
	ask := func(ask func(n *deadNode, ctx context.Context, path string) error, below string) func(*deadNode) call {
		return func(n *deadNode) call {
			dir := n.mountPoint()
			return func(ctx context.Context) error { return ask(n, ctx, filepath.Join(dir, below)) }
		}
	}
	isMountPoint := func(n *deadNode, ctx context.Context, path string) error {
		_, err := n.m.IsMountPoint(ctx, path)
		return err
	}
	return map[string]func(n *deadNode) call{
		"mount.Mounter.Mount, of the server": func(n *deadNode) call {
			target := n.target()
			return func(ctx context.Context) error {
				return n.m.Mount(ctx, n.request(target))
			}
		},
		"mount.Mounter.Mount, a bind of it": func(n *deadNode) call {
			dir, target := n.mountPoint(), n.target()
			return func(ctx context.Context) error {
				return n.m.Mount(ctx, mount.Request{Source: dir, Target: target})
			}
		},
		"mount.Mounter.Mount, a bind of what is in it": func(n *deadNode) call {
			dir, target := n.mountPoint(), n.target()
			return func(ctx context.Context) error {
				return n.m.Mount(ctx, mount.Request{Source: dir + "/unknown", Target: target})
			}
		},
		"mount.Mounter.Mount, on what is in it": ask(func(n *deadNode, ctx context.Context, path string) error {
			return n.m.Mount(ctx, mount.Request{Source: "x", Target: path, FSType: "tmpfs"})
		}, "unknown"),
		"mount.Mounter.Mount, a remount": ask(func(n *deadNode, ctx context.Context, path string) error {
			return n.m.Mount(ctx, mount.Request{Target: path, Remount: true, Options: []string{"ro"}})
		}, ""),
		"mount.Mounter.Unmount, idle": ask(func(n *deadNode, ctx context.Context, path string) error {
			return n.m.Unmount(ctx, path)
		}, ""),
		"mount.Mounter.Unmount, in use": func(n *deadNode) call {
			dir := n.busy(n.mountPoint())
			return func(ctx context.Context) error { return n.m.Unmount(ctx, dir) }
		},
		"mount.Mounter.UnmountTree": ask(func(n *deadNode, ctx context.Context, path string) error {
			return n.m.UnmountTree(ctx, path)
		}, ""),
		"mount.Mounter.IsMountPoint":               ask(isMountPoint, ""),
		"mount.Mounter.IsMountPoint, inside of it": ask(isMountPoint, "unknown/unknown"),
		"mount.Mounter.MountRefs": ask(func(n *deadNode, ctx context.Context, path string) error {
			_, err := n.m.MountRefs(ctx, path)
			return err
		}, ""),
		"mount.Mounter.MountsFrom": ask(func(n *deadNode, ctx context.Context, _ string) error {
			_, err := n.m.MountsFrom(ctx, n.source)
			return err
		}, ""),
		"mount.Mounter.Resolve": ask(func(n *deadNode, ctx context.Context, path string) error {
			_, err := n.m.Resolve(ctx, path)
			return err
		}, ""),
		"mount.Mounter.Resolve, inside of it": ask(func(n *deadNode, ctx context.Context, path string) error {
			_, err := n.m.Resolve(ctx, path)
			return err
		}, "unknown/unknown"),
		"mount.Mounter.List": ask(func(n *deadNode, ctx context.Context, _ string) error {
			_, err := n.m.List(ctx)
			return err
		}, ""),
		"mount.Mounter.Close": ask(func(*deadNode, context.Context, string) error { return mount.New(mount.Config{}).Close() }, ""),
		"util.UnmountMountPoint, idle": ask(func(n *deadNode, ctx context.Context, path string) error {
			return util.UnmountMountPoint(ctx, n.m, path)
		}, ""),
		"util.UnmountPath, in use": func(n *deadNode) call {
			dir := n.busy(n.mountPoint())
			return func(ctx context.Context) error { return util.UnmountPath(ctx, n.m, dir) }
		},
		"util.RemoveEmptyParents": ask(func(n *deadNode, _ context.Context, path string) error {
			_ = util.RemoveEmptyParents(context.Background(), n.dir, filepath.Join(path, "x")) // it is a mount point
			return nil
		}, ""),
		"nfs.Mounter.SetUp": func(n *deadNode) call {
			mounter, _ := n.newPod()
			return func(ctx context.Context) error { return mounter.SetUp(ctx, volume.MounterArgs{}) }
		},
		"nfs.Mounter.SetUp, of one that is up": func(n *deadNode) call {
			mounter, _ := n.up()
			return func(ctx context.Context) error { return mounter.SetUp(ctx, volume.MounterArgs{}) }
		},
		"nfs.Mounter.GetMetrics": func(n *deadNode) call {
			mounter, _ := n.up()
			return func(ctx context.Context) error {
				_, err := mounter.GetMetrics(ctx)
				return err
			}
		},
		"nfs.Unmounter.TearDown, idle": func(n *deadNode) call {
			_, unmounter := n.up()
			return unmounter.TearDown
		},
		"nfs.Unmounter.TearDown, in use": func(n *deadNode) call {
			_, unmounter := n.up()
			n.busy(unmounter.GetPath())
			return unmounter.TearDown
		},
		"nfs.Plugin.ConstructVolumeSpec": func(n *deadNode) call {
			mounter, _ := n.up()
			return func(ctx context.Context) error {
				_, err := n.plugin.ConstructVolumeSpec(ctx, "volume", mounter.GetPath())
				return err
			}
		},
		"nfs.Plugin.NewMounter, NewUnmounter, GetVolumeName": func(n *deadNode) call {
			return func(context.Context) error {
				n.newPod()
				_, err := n.plugin.GetVolumeName(n.spec())
				return err
			}
		},
	}
}

// TestNFSDeadTable prints how long each call takes when its server is dead.
func TestNFSDeadTable(t *testing.T) {
	export := t.TempDir()
	server := nfsserver.Start(t, export)
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, name := range sortedKeys(calls()) {
		t.Run(name, func(t *testing.T) {
			n := newDeadNode(t, server, export)
			var made []call
			for range tries {
				made = append(made, calls()[name](n))
			}
			require.NoError(t, server.LinkDown())
			defer func() { require.NoError(t, server.LinkUp()) }()
			took, outcome := firstInTime(t, made)
			require.Less(t, took, given+over, outcome)
			_, _ = fmt.Fprintf(table, "//\t%s\t%v\t%s\n", name, took.Round(time.Millisecond/10), outcome)
		})
	}
	require.NoError(t, table.Flush())
	t.Logf("with %v of time, on a server that does not answer:\n%s", given, text.String())
}

// firstInTime makes the calls until one returns in time, and returns how long that took.
func firstInTime(t *testing.T, calls []call) (took time.Duration, outcome string) {
	for _, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), given)
		start := time.Now()
		err := call(ctx)
		took, outcome = time.Since(start), outcomeOf(err)
		cancel()
		if took < given+over {
			break
		}
	}
	return took, outcome
}

// outcomeOf returns the outcome of a call as a text for the table.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, mount.ErrNotEnded):
		return "unmounted, not ended"
	case errors.Is(err, context.DeadlineExceeded):
		return "given up"
	}
	return err.Error()
}
