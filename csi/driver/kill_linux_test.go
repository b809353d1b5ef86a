package driver

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){
		"up": func(p mounttest.Process) {
			require.NoError(p, newCaller(p, p.Args[0]).up())
		},
		"down": func(p mounttest.Process) {
			require.NoError(p, newCaller(p, p.Args[0]).down(p.Args[1]))
		},
		"starts": func(p mounttest.Process) {
			starts, err := strconv.Atoi(p.Args[1])
			require.NoError(p, err)
			for range starts {
				newCaller(p, p.Args[0])
			}
		},
	})
}

// A caller makes the calls for one volume of a driver of local directories, in a process of its own.
type caller struct {
	driver                   *driver
	target, staging, kubelet string
}

func newCaller(t require.TestingT, dir string) caller {
	ctx := context.Background()
	host, err := volume.NewHost(ctx, dir+"/root", volume.WithTargetDirs(dir+"/kubelet"), volume.WithNodeName("node-1"))
	require.NoError(t, err)
	mounter := mount.New(mount.Config{StagingDir: dir + "/stage"})
	d, err := newDriver(ctx, Config{
		Name: "l.example.com", Version: "1", NodeID: "node-1", Host: host, Topology: []Segment{{Key: "node", Value: "node-1"}},
		Plugin: local.NewProvisioning(local.ProvisioningConfig{Config: local.Config{Mounter: mounter}, Provisioner: "l", ClaimRoots: []string{dir + "/claims"}}),
	})
	require.NoError(t, err)
	return caller{driver: d, kubelet: dir + "/kubelet", staging: dir + "/kubelet/staging", target: dir + "/kubelet/target"}
}

var killCapability = &csipb.VolumeCapability{
	AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}},
	AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
}

func (c caller) create() (*csipb.Volume, error) {
	resp, err := c.driver.CreateVolume(context.Background(), &csipb.CreateVolumeRequest{
		Name: "pvc-1", VolumeCapabilities: []*csipb.VolumeCapability{killCapability}, CapacityRange: &csipb.CapacityRange{RequiredBytes: 1 << 20},
	})
	return resp.GetVolume(), err
}

// up creates, stages and publishes the volume.
func (c caller) up() error {
	ctx := context.Background()
	v, err := c.create()
	if err == nil {
		_, err = c.driver.NodeStageVolume(ctx, &csipb.NodeStageVolumeRequest{
			VolumeId: v.VolumeId, VolumeContext: v.VolumeContext, StagingTargetPath: c.staging, VolumeCapability: killCapability,
		})
	}
	if err == nil {
		_, err = c.driver.NodePublishVolume(ctx, &csipb.NodePublishVolumeRequest{
			VolumeId: v.VolumeId, VolumeContext: v.VolumeContext, StagingTargetPath: c.staging, TargetPath: c.target, VolumeCapability: killCapability,
		})
	}
	return err
}

// down undoes up.
func (c caller) down(id string) error {
	ctx := context.Background()
	_, err := c.driver.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: c.target})
	if err == nil {
		_, err = c.driver.NodeUnstageVolume(ctx, &csipb.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: c.staging})
	}
	if err == nil {
		_, err = c.driver.DeleteVolume(ctx, &csipb.DeleteVolumeRequest{VolumeId: id})
	}
	return err
}

// TestSyncsOfStart pins the syncs of a start: each of the three directories of records, so that the records of a
// killed process are durable, and all directories above them to the root.
func TestSyncsOfStart(t *testing.T) {
	const few, many = 2, 12
	count := func(starts int) map[string]int {
		dir := t.TempDir()
		for _, sub := range []string{"/root", "/kubelet", "/claims", "/stage"} {
			require.NoError(t, os.Mkdir(dir+sub, 0o755))
		}
		return mounttest.CountCalls(t, mounttest.Program("starts", dir, strconv.Itoa(starts)))
	}
	calls, _ := testbed.CallsPerRound(count(few), count(many), many-few)
	// plugins/volumekit.io/csi/l.example.com, with node, controller/volumes and controller/attached
	require.Equal(t, 6+7+7, calls["fsync"], "%v", calls)
}

// TestKilled: after SIGKILL at any call that changes a file or a mount, the next process continues: the same
// calls succeed, with the same ID, and nothing is left in the end.
func TestKilled(t *testing.T) {
	for _, verb := range []string{"up", "down"} {
		t.Run(verb, func(t *testing.T) {
			if mounttest.Namespace(t) {
				testKilled(t, verb)
			}
		})
	}
}

func testKilled(t *testing.T, verb string) {
	dir := t.TempDir()
	for _, sub := range []string{"/root", "/kubelet", "/claims", "/stage"} {
		require.NoError(t, os.Mkdir(dir+sub, 0o755))
	}
	first := newCaller(t, dir)
	require.NoError(t, first.up())
	v, err := first.create()
	require.NoError(t, err)
	id := v.VolumeId
	kills := mounttest.KillAtEachCall(t, func() *exec.Cmd {
		require.NoError(t, newCaller(t, dir).down(id))
		requireNothing(t, dir, "before")
		if verb == "down" {
			require.NoError(t, newCaller(t, dir).up())
		}
		return mounttest.Program(verb, dir, id)
	}, func(place string) {
		next := newCaller(t, dir)
		if verb == "up" {
			require.NoError(t, next.up(), place)
			v, err := next.create()
			require.NoError(t, err, place)
			require.Equal(t, id, v.VolumeId, place)
			require.NoError(t, os.WriteFile(next.target+"/file", []byte("data"), 0o600), place)
			require.FileExists(t, dir+"/claims/pvc-1/file", place)
		}
		require.NoError(t, next.down(id), place)
		requireNothing(t, dir, place)
	})
	require.Positive(t, kills)
}

// requireNothing: no volume, no mount and no record is left, but for files that were being written.
func requireNothing(t *testing.T, dir, place string) {
	t.Helper()
	require.NoDirExists(t, dir+"/claims/pvc-1", place)
	require.NoDirExists(t, dir+"/kubelet/target", place)
	require.NoError(t, fs.WalkDir(os.DirFS(dir+"/root/plugins/volumekit.io/csi"), ".", func(name string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		require.True(t, entry.IsDir() || len(name) > len(newSuffix) && name[len(name)-len(newSuffix):] == newSuffix, "%s: left: %s", place, name)
		return nil
	}))
}
