package driver_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"google.golang.org/grpc/codes"
)

// TestNodeLifecycle: a volume is staged once and published twice, with a restart after each call, and
// nothing is left.
func TestNodeLifecycle(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.create("pvc-1")
	published := r.attach(v, manyWriters)
	for range 2 {
		_, err := r.node.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{
			VolumeId: v.VolumeId, StagingTargetPath: r.staging(), VolumeCapability: mounted(manyWriters), VolumeContext: v.VolumeContext, PublishContext: published,
		})
		require.NoError(t, err)
	}
	shared := r.root + "/plugins/volumekit.io/fake/mounts/pvc-1"
	require.True(t, r.isMounted(shared))
	for _, pod := range []string{"a", "b"} {
		r.restart()
		require.NoError(t, r.publish(v, r.target(pod), manyWriters))
		require.NoError(t, r.publish(v, r.target(pod), manyWriters), "repeated")
		require.True(t, r.isMounted(r.target(pod)))
	}
	requireCode(t, codes.FailedPrecondition, r.unstage(v))
	for _, pod := range []string{"a", "b"} {
		r.restart()
		require.NoError(t, r.unpublish(v, r.target(pod)))
		require.NoDirExists(t, r.target(pod))
		require.NoError(t, r.unpublish(v, r.target(pod)), "repeated")
	}
	r.restart()
	require.NoError(t, r.unstage(v))
	require.NoError(t, r.unstage(v), "repeated")
	require.False(t, r.isMounted(shared))
	require.NoError(t, r.detach(v))
	require.NoError(t, r.delete(v.VolumeId))
	r.requireNoRecords()
}

// TestPublishTable is the specification's table for a second NodePublishVolume.
func TestPublishTable(t *testing.T) {
	tests := []struct {
		mode                     csipb.VolumeCapability_AccessMode_Mode
		sameTarget, otherTarget  codes.Code
		sameTargetRO, otherPodRO codes.Code
	}{
		{writer, codes.OK, codes.FailedPrecondition, codes.AlreadyExists, codes.FailedPrecondition},
		{singleWriter, codes.OK, codes.FailedPrecondition, codes.AlreadyExists, codes.FailedPrecondition},
		{manyWriters, codes.OK, codes.OK, codes.AlreadyExists, codes.OK},
		{onlyReaders, codes.OK, codes.OK, codes.AlreadyExists, codes.OK},
	}
	for _, test := range tests {
		t.Run(test.mode.String(), func(t *testing.T) {
			r := newRig(t, volumetest.FakeConfig{}, nil)
			v := r.ready("pvc-1", test.mode)
			require.NoError(t, r.publish(v, r.target("a"), test.mode))
			publish := func(target string, readOnly bool) error {
				req := r.publishRequest(v, target, test.mode)
				req.Readonly = readOnly
				_, err := r.node.NodePublishVolume(t.Context(), req)
				return err
			}
			requireCode(t, test.sameTarget, publish(r.target("a"), false))
			requireCode(t, test.otherTarget, publish(r.target("b"), false))
			requireCode(t, test.sameTargetRO, publish(r.target("a"), true))
			requireCode(t, test.otherPodRO, publish(r.target("c"), true))
			require.True(t, r.isMounted(r.target("a")))
		})
	}
}

// TestReadOnly: the modes of readers, and the flag of the call, mount read-only.
func TestReadOnly(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.ready("pvc-1", manyWriters)
	req := r.publishRequest(v, r.target("a"), manyWriters)
	req.Readonly = true
	_, err := r.node.NodePublishVolume(t.Context(), req)
	require.NoError(t, err)
	require.True(t, r.isReadOnly(r.target("a")))
	require.NoError(t, r.publish(v, r.target("b"), manyWriters))
	require.False(t, r.isReadOnly(r.target("b")))

	readers := r.ready("pvc-2", onlyReaders)
	require.NoError(t, r.publish(readers, r.target("c"), onlyReaders))
	require.True(t, r.isReadOnly(r.target("c")))
}

func (r *rig) isReadOnly(at string) bool {
	r.t.Helper()
	found, err := r.plugin.ConstructVolumeSpec(r.t.Context(), "name", at)
	require.NoError(r.t, err)
	return found.Spec.ReadOnly
}

// TestNodeRefuses: invalid requests have the code of the specification, and change nothing.
func TestNodeRefuses(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.ready("pvc-1", manyWriters)
	unstaged := r.create("pvc-2")
	tests := map[string]struct {
		code   codes.Code
		change func(*csipb.NodePublishVolumeRequest)
	}{
		"no volume":         {codes.InvalidArgument, func(q *csipb.NodePublishVolumeRequest) { q.VolumeId = "" }},
		"no target":         {codes.InvalidArgument, func(q *csipb.NodePublishVolumeRequest) { q.TargetPath = "" }},
		"a relative target": {codes.InvalidArgument, func(q *csipb.NodePublishVolumeRequest) { q.TargetPath = "a/b" }},
		"dots":              {codes.InvalidArgument, func(q *csipb.NodePublishVolumeRequest) { q.TargetPath = r.kubelet + "/../x" }},
		"a foreign target":  {codes.InvalidArgument, func(q *csipb.NodePublishVolumeRequest) { q.TargetPath = "/etc/cron.d" }},
		"the directory":     {codes.InvalidArgument, func(q *csipb.NodePublishVolumeRequest) { q.TargetPath = r.kubelet }},
		"a long target":     {codes.InvalidArgument, func(q *csipb.NodePublishVolumeRequest) { q.TargetPath = "/" + strings.Repeat("a/", 4096) }},
		"a control":         {codes.InvalidArgument, func(q *csipb.NodePublishVolumeRequest) { q.TargetPath = r.kubelet + "/a\x00" }},
		"no capability":     {codes.InvalidArgument, func(q *csipb.NodePublishVolumeRequest) { q.VolumeCapability = nil }},
		"block":             {codes.InvalidArgument, func(q *csipb.NodePublishVolumeRequest) { q.VolumeCapability = block(manyWriters) }},
		"no staging":        {codes.FailedPrecondition, func(q *csipb.NodePublishVolumeRequest) { q.StagingTargetPath = "" }},
		"another staging":   {codes.FailedPrecondition, func(q *csipb.NodePublishVolumeRequest) { q.StagingTargetPath = r.kubelet }},
		"not staged": {codes.FailedPrecondition, func(q *csipb.NodePublishVolumeRequest) {
			q.VolumeId, q.VolumeContext = unstaged.VolumeId, unstaged.VolumeContext
		}},
		"unknown":           {codes.NotFound, func(q *csipb.NodePublishVolumeRequest) { q.VolumeId, q.VolumeContext = "other", nil }},
		"a foreign context": {codes.InvalidArgument, func(q *csipb.NodePublishVolumeRequest) { q.VolumeContext = unstaged.VolumeContext }},
		"an ephemeral volume": {codes.InvalidArgument, func(q *csipb.NodePublishVolumeRequest) {
			q.VolumeContext = map[string]string{"csi.storage.k8s.io/ephemeral": "true"}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			req := r.publishRequest(v, r.target("a"), manyWriters)
			test.change(req)
			_, err := r.node.NodePublishVolume(t.Context(), req)
			requireCode(t, test.code, err)
		})
	}
	require.Zero(t, r.plugin.Calls(volumetest.SetUp))
	requireCode(t, codes.AlreadyExists, r.stage(v, writer))
	for _, staging := range []string{"", "a/b", r.kubelet + "/../x", "/a\x00"} {
		_, err := r.node.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{
			VolumeId: unstaged.VolumeId, StagingTargetPath: staging, VolumeCapability: mounted(manyWriters), VolumeContext: unstaged.VolumeContext,
		})
		requireCode(t, codes.InvalidArgument, err)
	}
	_, err := r.node.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{
		VolumeId: v.VolumeId, StagingTargetPath: r.kubelet, VolumeCapability: mounted(manyWriters), VolumeContext: v.VolumeContext,
	})
	requireCode(t, codes.FailedPrecondition, err)
}

// TestSetUpErrors: each kind of error has its code; a publication is recorded only if it may exist.
func TestSetUpErrors(t *testing.T) {
	tests := map[string]struct {
		fault volumetest.Fault
		code  codes.Code
	}{
		"final":     {volumetest.Fault{Err: errors.New("no")}, codes.Internal},
		"transient": {volumetest.Fault{Err: volume.ErrTransient}, codes.Unavailable},
		"uncertain": {volumetest.Fault{Err: volume.ErrUncertain}, codes.Aborted},
		"after":     {volumetest.Fault{Err: errors.New("late"), After: true}, codes.Aborted},
		"mounted":   {volumetest.Fault{Err: volume.ErrAlreadyMounted}, codes.AlreadyExists},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, method := range []volumetest.Method{volumetest.MountDevice, volumetest.SetUp} {
				r := newRig(t, volumetest.FakeConfig{}, nil)
				v := r.create("pvc-1")
				r.attach(v, manyWriters)
				call := func() error { return r.stage(v, manyWriters) }
				if method == volumetest.SetUp {
					require.NoError(t, r.stage(v, manyWriters))
					call = func() error { return r.publish(v, r.target("a"), manyWriters) }
				}
				test.fault.Method, test.fault.Times = method, 1
				r.plugin.Inject(test.fault)
				requireCode(t, test.code, call())
				if volume.KindOf(test.fault.Err) != volume.Uncertain && !test.fault.After {
					requireCode(t, codes.OK, call())
					require.NoError(t, r.unpublish(v, r.target("a")))
				}
				r.restart()
				if method == volumetest.SetUp && test.fault.After {
					requireCode(t, codes.FailedPrecondition, r.unstage(v))
				}
				require.NoError(t, r.unpublish(v, r.target("a")))
				require.NoError(t, r.unstage(v))
				require.False(t, r.isMounted(r.target("a")))
				require.False(t, r.isMounted(r.root+"/plugins/volumekit.io/fake/mounts/pvc-1"))
				require.NoError(t, r.detach(v))
				require.NoError(t, r.delete(v.VolumeId))
				r.requireNoRecords()
			}
		})
	}
}

// TestTargetsAreOfOneVolume: the path of a volume is neither published nor unpublished for another one,
// also after a restart.
func TestTargetsAreOfOneVolume(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v, other := r.ready("pvc-1", manyWriters), r.ready("pvc-2", manyWriters)
	require.NoError(t, r.publish(v, r.target("a"), manyWriters))
	for range 2 {
		requireCode(t, codes.AlreadyExists, r.publish(other, r.target("a"), manyWriters))
		requireCode(t, codes.NotFound, r.unpublish(other, r.target("a")))
		require.True(t, r.isMounted(r.target("a")))
		r.restart()
	}
	require.NoError(t, r.mounter.Unmount(t.Context(), r.target("a"))) // as after a restart of the node
	requireCode(t, codes.AlreadyExists, r.publish(other, r.target("a"), manyWriters))
	require.NoError(t, r.unpublish(v, r.target("a")))
	require.NoError(t, r.publish(other, r.target("a"), manyWriters))
}

// TestFailedPublicationIsForgotten: the one path of a volume is free after a failed call.
func TestFailedPublicationIsForgotten(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.ready("pvc-1", writer)
	r.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: errors.New("no"), Times: 1})
	requireCode(t, codes.Internal, r.publish(v, r.target("a"), writer))
	require.NoError(t, r.publish(v, r.target("b"), writer))
}

// TestLostRecords: a volume without a record is unmounted all the same.
func TestLostRecords(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.ready("pvc-1", manyWriters)
	require.NoError(t, r.publish(v, r.target("a"), manyWriters))
	r.stop()
	require.NoError(t, os.RemoveAll(r.root+"/plugins/volumekit.io/csi"))
	r.start()
	require.NoError(t, r.unpublish(v, r.target("a")))
	require.False(t, r.isMounted(r.target("a")))
	require.NoError(t, r.unstage(v))
}

// TestUnstageForgetsRemovedTargets: a target path that the caller has removed does not keep the volume.
func TestUnstageForgetsRemovedTargets(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.ready("pvc-1", manyWriters)
	require.NoError(t, r.publish(v, r.target("a"), manyWriters))
	require.NoError(t, r.mounter.Unmount(t.Context(), r.target("a")))
	requireCode(t, codes.FailedPrecondition, r.unstage(v))
	require.NoError(t, os.Remove(r.target("a")))
	require.NoError(t, r.unstage(v))
	other := r.ready("pvc-2", manyWriters)
	require.NoError(t, r.publish(other, r.target("a"), manyWriters), "the path is free")
}

// unstaged has the abilities of a plugin whose volumes are not staged.
type unstaged struct {
	volume.VolumePlugin
	volume.PathVolumePlugin
	volume.PersistentVolumePlugin
	volume.ProvisionableVolumePlugin
	volume.DeletableVolumePlugin
}

// TestRemovedTargetsAreForgotten: a target path that the caller has removed keeps neither another path from the
// volume nor the storage.
func TestRemovedTargetsAreForgotten(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{NoAttach: true, NoDeviceMount: true}, func(c *driver.Config) {
		p := c.Plugin.(*volumetest.FakePlugin)
		c.Plugin = unstaged{p, p, p, p, p}
	})
	v := r.create("pvc-1")
	require.NoError(t, r.publish(v, r.target("a"), singleWriter))
	requireCode(t, codes.FailedPrecondition, r.publish(v, r.target("b"), singleWriter))
	requireCode(t, codes.FailedPrecondition, r.delete(v.VolumeId))
	require.NoError(t, r.mounter.Unmount(t.Context(), r.target("a")))
	requireCode(t, codes.FailedPrecondition, r.publish(v, r.target("b"), singleWriter))
	require.NoError(t, os.Remove(r.target("a")))
	require.NoError(t, r.publish(v, r.target("b"), singleWriter))
	require.NoError(t, r.mounter.Unmount(t.Context(), r.target("b")))
	requireCode(t, codes.FailedPrecondition, r.delete(v.VolumeId))
	require.NoError(t, os.RemoveAll(filepath.Dir(r.target("b"))))
	require.NoError(t, r.delete(v.VolumeId))
	r.requireNoRecords()
}

// TestStats: volumes are measured where they are published, and nowhere else.
func TestStats(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.ready("pvc-1", manyWriters)
	require.NoError(t, r.publish(v, r.target("a"), manyWriters))
	stats := func(id, at string) (*csipb.NodeGetVolumeStatsResponse, error) {
		return r.node.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: at})
	}
	for _, at := range []string{r.target("a"), r.staging()} {
		resp, err := stats(v.VolumeId, at)
		require.NoError(t, err, at)
		require.Len(t, resp.Usage, 2)
		require.EqualValues(t, 4096, resp.Usage[0].Total)
		require.EqualValues(t, 1024, resp.Usage[0].Used)
		require.EqualValues(t, 3072, resp.Usage[0].Available)
		require.Equal(t, csipb.VolumeUsage_INODES, resp.Usage[1].Unit)
	}
	for _, at := range []string{r.target("b"), "some/path", "/"} {
		_, err := stats(v.VolumeId, at)
		requireCode(t, codes.NotFound, err)
	}
	_, err := stats("other", r.target("a"))
	requireCode(t, codes.NotFound, err)
	_, err = stats("", r.target("a"))
	requireCode(t, codes.InvalidArgument, err)
	_, err = stats(v.VolumeId, "")
	requireCode(t, codes.InvalidArgument, err)
	r.plugin.Inject(volumetest.Fault{Method: volumetest.GetMetrics, Err: volume.ErrNotSupported, Times: 1})
	_, err = stats(v.VolumeId, r.target("a"))
	requireCode(t, codes.Unimplemented, err)
}

// TestNodeExpand grows a volume where it is staged or published.
func TestNodeExpand(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{Size: func(*volume.Spec) int64 { return 1 << 21 }}, nil)
	v := r.ready("pvc-1", manyWriters)
	expand := func(id, at string, size int64) (*csipb.NodeExpandVolumeResponse, error) {
		return r.node.NodeExpandVolume(t.Context(), &csipb.NodeExpandVolumeRequest{VolumeId: id, VolumePath: at, CapacityRange: &csipb.CapacityRange{RequiredBytes: size}})
	}
	resp, err := r.node.NodeExpandVolume(t.Context(), &csipb.NodeExpandVolumeRequest{VolumeId: v.VolumeId, VolumePath: r.staging()})
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, resp.CapacityBytes, "without a range the size is that of the volume")
	resp, err = expand(v.VolumeId, r.staging(), 1<<21)
	require.NoError(t, err)
	require.EqualValues(t, 1<<21, resp.CapacityBytes)
	require.NoError(t, r.publish(v, r.target("a"), manyWriters))
	_, err = expand(v.VolumeId, r.target("a"), 1<<21)
	require.NoError(t, err)
	_, err = expand(v.VolumeId, r.target("a"), 1<<22)
	requireCode(t, codes.FailedPrecondition, err)
	_, err = expand(v.VolumeId, r.target("b"), 1<<21)
	requireCode(t, codes.NotFound, err)
	_, err = expand(v.VolumeId, "", 1<<21)
	requireCode(t, codes.InvalidArgument, err)
	r.plugin.Inject(volumetest.Fault{Method: volumetest.NodeExpand, Err: volume.ErrInfeasible, Times: 1})
	_, err = expand(v.VolumeId, r.target("a"), 1<<21)
	requireCode(t, codes.OutOfRange, err)
	r.plugin.Inject(volumetest.Fault{Method: volumetest.NodeExpand, Err: volume.ErrNotSupported, Times: 1})
	_, err = expand(v.VolumeId, r.target("a"), 1<<22)
	require.NoError(t, err, "the node has no work to do")
}

// TestStaticVolume: a context alone describes a volume, and Delete leaves it.
func TestStaticVolume(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	files := r.root + "/files"
	require.NoError(t, os.Mkdir(files, 0o750))
	v := &csipb.Volume{VolumeId: "shared/files", VolumeContext: map[string]string{
		driver.VersionKey: "1", "other.example.com/key": "value",
		driver.SourceKey: `{"csi":{"driver":"volumekit.io/fake","volumeHandle":"x","volumeAttributes":{"directory":"` + files + `"}}}`,
	}}
	r.attach(v, manyWriters)
	require.NoError(t, r.stage(v, manyWriters))
	require.NoError(t, r.publish(v, r.target("a"), manyWriters))
	r.restart()
	require.NoError(t, r.delete(v.VolumeId))
	require.DirExists(t, files)
	require.NoError(t, r.unpublish(v, r.target("a")))
	require.NoError(t, r.unstage(v))
	require.NoError(t, r.detach(v))
	r.requireNoRecords()
}

// TestRotatedSecrets: a repeated call has other secrets than the first one, and the same answer. Other arguments
// are refused.
func TestRotatedSecrets(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.create("pvc-1")
	flags := func(name, password string) *csipb.VolumeCapability {
		return mounted(manyWriters, "noatime", "username="+name+",password="+password, "token="+password)
	}
	calls := map[string]func(c *csipb.VolumeCapability, secret string) error{
		"attach": func(c *csipb.VolumeCapability, secret string) error {
			_, err := r.controller.ControllerPublishVolume(t.Context(), &csipb.ControllerPublishVolumeRequest{
				VolumeId: v.VolumeId, NodeId: "id-1", VolumeCapability: c, VolumeContext: v.VolumeContext, Secrets: map[string]string{"a": secret},
			})
			return err
		},
		"stage": func(c *csipb.VolumeCapability, secret string) error {
			_, err := r.node.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{
				VolumeId: v.VolumeId, StagingTargetPath: r.staging(), VolumeCapability: c, VolumeContext: v.VolumeContext, Secrets: map[string]string{"a": secret},
			})
			return err
		},
		"publish": func(c *csipb.VolumeCapability, secret string) error {
			req := r.publishRequest(v, r.target("a"), manyWriters)
			req.VolumeCapability, req.Secrets = c, map[string]string{"a": secret}
			_, err := r.node.NodePublishVolume(t.Context(), req)
			return err
		},
	}
	for _, name := range []string{"attach", "stage", "publish"} {
		call := calls[name]
		require.NoError(t, call(flags("me", "old"), "old"), name)
		require.NoError(t, call(flags("me", "a,rotated=one"), "new"), name)
		requireCode(t, codes.AlreadyExists, call(flags("you", "old"), "old"))
	}
}
