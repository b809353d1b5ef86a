package csi_test

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
)

// An instantDriver answers all calls at once in the caller's process, and counts them.
type instantDriver struct {
	grpc.ClientConnInterface
	noStage bool
	mu      sync.Mutex
	calls   map[string]int
}

func (d *instantDriver) Invoke(_ context.Context, method string, _, answer any, _ ...grpc.CallOption) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls == nil {
		d.calls = map[string]int{}
	}
	d.calls[path.Base(method)]++
	if answer, ok := answer.(*csipb.NodeGetCapabilitiesResponse); ok && !d.noStage {
		answer.Capabilities = []*csipb.NodeServiceCapability{{Type: &csipb.NodeServiceCapability_Rpc{
			Rpc: &csipb.NodeServiceCapability_RPC{Type: csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
		}}}
	}
	return nil
}

// newCostNode returns a node with an instant driver.
func newCostNode(t require.TestingT, dir string) (killNode, *instantDriver) {
	d := &instantDriver{}
	return newKillNodeOf(t, dir, string(v1.PersistentVolumeFilesystem), mount.New(mount.Config{}), csi.Driver{Conn: d}), d
}

// volumesProgram brings a volume up and takes it down, as often as an argument says.
func volumesProgram(p mounttest.Process) {
	rounds, err := strconv.Atoi(p.Args[1])
	require.NoError(p, err)
	n, _ := newCostNode(p, p.Args[0])
	for range rounds {
		require.NoError(p, n.up())
		require.NoError(p, n.down())
	}
}

// TestCallsOfPodVolume pins the system calls of a volume that is staged, published, unpublished and
// unstaged. Before NodeStageVolume and NodePublishVolume, a file is written durably in a new directory:
//
//	fsync      the content
//	fsync      the directory above, with the name of the new one
//	renameat
//	fsync      the directory, with the name of the file
//
// NodeUnpublishVolume and NodeUnstageVolume need no durable write: their state is one byte. Three calls before
// NodeUnpublishVolume read the file of the staging path.
func TestCallsOfPodVolume(t *testing.T) {
	const few, many = 10, 40
	dir := testbed.Dir(t)
	count := func(rounds int) map[string]int {
		root := filepath.Join(dir, strconv.Itoa(rounds))
		require.NoError(t, os.MkdirAll(root+"/root", 0o750))
		return mounttest.CountCalls(t, mounttest.Program("volumes", root, strconv.Itoa(rounds)))
	}
	calls, total := testbed.CallsPerRound(count(few), count(many), many-few)
	t.Log(total, calls)
	for name, want := range map[string]int{
		"fsync":    6,
		"renameat": 2,
		"mkdirat":  3, // two of the staged volume, one of the pod's
		"pwrite64": 4, // two files, two states
	} {
		assert.Equal(t, want, calls[name], name)
	}
	assert.LessOrEqual(t, total, 82, "%v", calls)
}

// repeatsProgram brings a volume up, and again in as many further runs of the plugin as an argument says.
func repeatsProgram(p mounttest.Process) {
	runs, err := strconv.Atoi(p.Args[2])
	require.NoError(p, err)
	for range 1 + runs {
		n := newKillNodeOf(p, p.Args[0], p.Args[1], mount.New(mount.Config{}), csi.Driver{Conn: &instantDriver{noStage: p.Args[3] == "unstaged"}})
		require.NoError(p, n.up())
	}
}

// TestSyncsOfRepetition pins the syncs of a volume that a new process brings up again: the name of each file is
// synced before the call. An earlier process may have been killed between the write of the name and its sync.
func TestSyncsOfRepetition(t *testing.T) {
	const few, many = 2, 12
	for _, test := range []struct {
		mode, stages string
		syncs        int
	}{
		{string(v1.PersistentVolumeFilesystem), "staged", 2},
		{string(v1.PersistentVolumeFilesystem), "unstaged", 1},
		{string(v1.PersistentVolumeBlock), "staged", 1}, // the file of the staging records its success
		{string(v1.PersistentVolumeBlock), "unstaged", 2},
	} {
		t.Run(test.mode+"/"+test.stages, func(t *testing.T) {
			dir := testbed.Dir(t)
			count := func(runs int) map[string]int {
				root := filepath.Join(dir, strconv.Itoa(runs))
				require.NoError(t, os.MkdirAll(root+"/root", 0o750))
				return mounttest.CountCalls(t, mounttest.Program("repeats", root, test.mode, strconv.Itoa(runs), test.stages))
			}
			calls, _ := testbed.CallsPerRound(count(few), count(many), many-few)
			require.Equal(t, test.syncs, calls["fsync"], "%v", calls)
			require.Zero(t, calls["renameat"])
		})
	}
}

// TestCostOfPodVolume pins the calls of the driver for a volume, and the allocations of the plugin.
func TestCostOfPodVolume(t *testing.T) {
	dir := testbed.Dir(t)
	require.NoError(t, os.Mkdir(dir+"/root", 0o750))
	n, d := newCostNode(t, dir)
	const rounds = 20
	allocations := testing.AllocsPerRun(rounds, func() {
		require.NoError(t, n.up())
		require.NoError(t, n.down())
	})
	require.Equal(t, map[string]int{
		"NodeGetCapabilities": 1,
		"NodeStageVolume":     rounds + 1, "NodePublishVolume": rounds + 1,
		"NodeUnpublishVolume": rounds + 1, "NodeUnstageVolume": rounds + 1,
	}, d.calls)
	t.Log(allocations)
	require.LessOrEqual(t, allocations, 800.0) // measured: 666, and up to 702 with the race detector
}

// TestIdleVolumes: volumes that are up have no goroutines and no calls.
func TestIdleVolumes(t *testing.T) {
	testbed.RealTime(t)
	dir := testbed.Dir(t)
	require.NoError(t, os.Mkdir(dir+"/root", 0o750))
	n, d := newCostNode(t, dir)
	before := runtime.NumGoroutine()
	const volumes = 1000
	nodes := make([]killNode, volumes)
	for i := range nodes {
		nodes[i] = n
		nodes[i].spec = killSpec(fmt.Sprint("pv-", i), fmt.Sprint("handle-", i), v1.PersistentVolumeFilesystem)
		require.NoError(t, nodes[i].up())
	}
	requireGoroutines(t, before)
	require.Equal(t, map[string]int{"NodeGetCapabilities": 1, "NodeStageVolume": volumes, "NodePublishVolume": volumes}, d.calls)
	for _, n := range nodes {
		require.NoError(t, n.down())
	}
	require.Empty(t, leftFiles(t, dir+"/root"))
	requireGoroutines(t, before)
}

// requireGoroutines waits until at most some goroutines run: those of calls end after the calls.
func requireGoroutines(t *testing.T, most int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > most; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "goroutines are left")
	}
}
