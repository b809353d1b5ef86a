package driver_test

import (
	"context"
	"errors"
	"math"
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
	"google.golang.org/protobuf/proto"
)

// TestCreateIsIdempotent: the same request returns the same volume, also after a restart; another one
// for the name is ALREADY_EXISTS.
func TestCreateIsIdempotent(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	first := r.create("pvc-1")
	require.LessOrEqual(t, len(first.VolumeId), 128)
	require.EqualValues(t, 1<<20, first.CapacityBytes)
	require.True(t, proto.Equal(first, r.create("pvc-1")))
	r.restart()
	require.True(t, proto.Equal(first, r.create("pvc-1")))
	require.Zero(t, r.plugin.Calls(volumetest.Provision), "the record is enough")

	tests := map[string]func(*csipb.CreateVolumeRequest){
		"more bytes":  func(r *csipb.CreateVolumeRequest) { r.CapacityRange.RequiredBytes *= 2 },
		"fewer bytes": func(r *csipb.CreateVolumeRequest) { r.CapacityRange = &csipb.CapacityRange{LimitBytes: 1 << 19} },
		"parameters":  func(r *csipb.CreateVolumeRequest) { r.Parameters = map[string]string{"a": "b"} },
		"access mode": func(r *csipb.CreateVolumeRequest) { r.VolumeCapabilities[0] = mounted(onlyReaders) },
		"a second mode": func(r *csipb.CreateVolumeRequest) {
			r.VolumeCapabilities = append(r.VolumeCapabilities, mounted(writer))
		},
		"file system": func(r *csipb.CreateVolumeRequest) { r.VolumeCapabilities[0].GetMount().FsType = "xfs" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			req := createRequest("pvc-1")
			change(req)
			_, err := r.controller.CreateVolume(t.Context(), req)
			requireCode(t, codes.AlreadyExists, err)
		})
	}
	compatible := createRequest("pvc-1")
	compatible.CapacityRange = &csipb.CapacityRange{RequiredBytes: 1, LimitBytes: 1 << 30}
	compatible.Parameters = map[string]string{"csi.storage.k8s.io/pvc/name": "data"}
	resp, err := r.controller.CreateVolume(t.Context(), compatible)
	require.NoError(t, err)
	require.True(t, proto.Equal(first, resp.GetVolume()))

	require.NoError(t, r.delete(first.VolumeId))
	require.NoError(t, r.delete(first.VolumeId), "repeated")
	r.requireNoRecords()
}

// TestCreateRefuses: invalid requests have the code of the specification, and leave nothing.
func TestCreateRefuses(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	tests := map[string]struct {
		code   codes.Code
		change func(*csipb.CreateVolumeRequest)
	}{
		"no name":            {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.Name = "" }},
		"a long name":        {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.Name = strings.Repeat("a", 129) }},
		"a control":          {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.Name = "a\x00b" }},
		"no capability":      {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.VolumeCapabilities = nil }},
		"an empty one":       {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.VolumeCapabilities[0] = &csipb.VolumeCapability{} }},
		"an unknown mode":    {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.VolumeCapabilities[0] = mounted(99) }},
		"no raw devices":     {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.VolumeCapabilities[0] = block(writer) }},
		"a negative size":    {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = -1 }},
		"a negative limit":   {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.CapacityRange.LimitBytes = math.MinInt64 }},
		"limit below size":   {codes.OutOfRange, func(r *csipb.CreateVolumeRequest) { r.CapacityRange.LimitBytes = 1 }},
		"many parameters":    {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.Parameters = map[string]string{"a": strings.Repeat("a", 4<<10)} }},
		"mutable parameters": {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.MutableParameters = map[string]string{"a": "b"} }},
		"a source":           {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.VolumeContentSource = &csipb.VolumeContentSource{} }},
		"a topology":         {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.AccessibilityRequirements = &csipb.TopologyRequirement{} }},
		"a mount group":      {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) { r.VolumeCapabilities[0].GetMount().VolumeMountGroup = "7" }},
		"long mount flags": {codes.InvalidArgument, func(r *csipb.CreateVolumeRequest) {
			r.VolumeCapabilities[0] = mounted(writer, strings.Repeat("a", 4097))
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			req := createRequest("pvc-1")
			test.change(req)
			_, err := r.controller.CreateVolume(t.Context(), req)
			requireCode(t, test.code, err)
		})
	}
	require.Zero(t, r.plugin.Calls(volumetest.Provision))
	r.requireNoRecords()
}

// TestCreateNames: any name of the specification is a volume of its own.
func TestCreateNames(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	ids := map[string]bool{}
	names := []string{
		"pvc-1", "PVC-1", "../../etc", ".", "ä", strings.Repeat("a", 128), "a b", "static-" + strings.Repeat("0", 40), "v1-0123456789abcdef-pvc-1",
	}
	for _, name := range names {
		v := r.create(name)
		require.LessOrEqual(t, len(v.VolumeId), 128)
		ids[v.VolumeId] = true
	}
	require.Len(t, ids, len(names))
	for id := range ids {
		require.NoError(t, r.delete(id))
	}
	r.requireNoRecords()
}

// TestProvisionErrors: each kind of error has its code, and leaves a record only if storage may exist.
func TestProvisionErrors(t *testing.T) {
	tests := map[string]struct {
		fault volumetest.Fault
		code  codes.Code
		left  bool
	}{
		"final":      {volumetest.Fault{Err: errors.New("no")}, codes.Internal, false},
		"transient":  {volumetest.Fault{Err: volume.ErrTransient}, codes.Unavailable, false},
		"uncertain":  {volumetest.Fault{Err: volume.ErrUncertain}, codes.Aborted, true},
		"after":      {volumetest.Fault{Err: errors.New("late"), After: true}, codes.Aborted, true},
		"infeasible": {volumetest.Fault{Err: volume.ErrInfeasible}, codes.InvalidArgument, false},
		"reschedule": {volumetest.Fault{Err: volume.ErrReschedule}, codes.ResourceExhausted, false},
		"deadline":   {volumetest.Fault{Err: volume.AsUncertain(context.DeadlineExceeded)}, codes.DeadlineExceeded, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, volumetest.FakeConfig{}, nil)
			test.fault.Method, test.fault.Times = volumetest.Provision, 1
			r.plugin.Inject(test.fault)
			_, err := r.controller.CreateVolume(t.Context(), createRequest("pvc-1"))
			requireCode(t, test.code, err)
			if !test.left {
				r.requireNoRecords()
			}
			if test.left {
				other := createRequest("pvc-1")
				other.CapacityRange.RequiredBytes *= 2
				_, err := r.controller.CreateVolume(t.Context(), other)
				requireCode(t, codes.AlreadyExists, err)
			}
			list, err := r.controller.ListVolumes(t.Context(), &csipb.ListVolumesRequest{})
			require.NoError(t, err)
			require.Empty(t, list.Entries)
			r.restart()
			require.NoError(t, r.delete(r.create("pvc-1").VolumeId), "the next call continues")
			r.requireNoRecords()
		})
	}
}

// TestDelete: unknown volumes are deleted already; used ones are kept; a volume of which a part may be
// deleted is not created again.
func TestDelete(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	for _, id := range []string{"fake-vol-id", "v1-0123456789abcdef-pvc-1", "../../x"} {
		require.NoError(t, r.delete(id), id)
	}
	requireCode(t, codes.InvalidArgument, r.delete(""))
	requireCode(t, codes.InvalidArgument, r.delete(strings.Repeat("a", 129)))

	v := r.ready("pvc-1", manyWriters)
	requireCode(t, codes.FailedPrecondition, r.delete(v.VolumeId))
	require.NoError(t, r.unstage(v))
	requireCode(t, codes.FailedPrecondition, r.delete(v.VolumeId))
	require.NoError(t, r.detach(v))

	r.plugin.Inject(volumetest.Fault{Method: volumetest.Delete, Err: volume.ErrTransient, Times: 1})
	requireCode(t, codes.Unavailable, r.delete(v.VolumeId))
	require.True(t, proto.Equal(v, r.create("pvc-1")), "nothing was deleted")
	for _, fault := range []struct {
		err  error
		code codes.Code
	}{{volume.ErrUncertain, codes.Aborted}, {errors.New("final"), codes.Internal}} {
		v = r.create("pvc-1")
		r.plugin.Inject(volumetest.Fault{Method: volumetest.Delete, Err: fault.err, Times: 1})
		requireCode(t, fault.code, r.delete(v.VolumeId))
		r.restart()
		_, err := r.controller.CreateVolume(t.Context(), createRequest("pvc-1"))
		requireCode(t, codes.Aborted, err)
		r.plugin.Inject(volumetest.Fault{Method: volumetest.Delete, Err: volume.ErrTransient, Times: 1})
		requireCode(t, codes.Unavailable, r.delete(v.VolumeId))
		_, err = r.controller.CreateVolume(t.Context(), createRequest("pvc-1"))
		requireCode(t, codes.Aborted, err)
		require.NoError(t, r.delete(v.VolumeId))
		r.requireNoRecords()
		require.NoDirExists(t, r.root+"/plugins/volumekit.io/fake/provisioned/pvc-1")
	}
}

// TestOneCallPerVolume: a second call for a volume is ABORTED, and other volumes do not wait.
func TestOneCallPerVolume(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.create("pvc-1")
	began := make(chan struct{})
	release := make(chan struct{})
	r.stop()
	r.change = func(c *driver.Config) {
		c.Plugin = hangingPlugin{r.plugin, began, release}
	}
	r.start()
	hung := make(chan error, 1)
	go func() { hung <- r.delete(v.VolumeId) }()
	<-began
	requireCode(t, codes.Aborted, r.delete(v.VolumeId))
	requireCode(t, codes.Aborted, r.stage(v, manyWriters))
	r.create("pvc-2")
	close(release)
	require.NoError(t, <-hung)
}

// A hangingPlugin waits in NewDeleter.
type hangingPlugin struct {
	*volumetest.FakePlugin
	began, release chan struct{}
}

func (p hangingPlugin) NewDeleter(spec *volume.Spec) (volume.Deleter, error) {
	close(p.began)
	<-p.release
	return p.FakePlugin.NewDeleter(spec)
}

// TestAttach: attached volumes are recorded until they are detached, and a node is checked.
func TestAttach(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{MaxVolumes: 1}, knownNode)
	v := r.create("pvc-1")
	published := r.attach(v, manyWriters)
	require.NotEmpty(t, published[driver.DeviceKey])
	require.Equal(t, published, r.attach(v, manyWriters), "repeated")
	list, err := r.controller.ListVolumes(t.Context(), &csipb.ListVolumesRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"id-1"}, list.Entries[0].Status.PublishedNodeIds)

	request := func(id, node string) *csipb.ControllerPublishVolumeRequest {
		return &csipb.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: mounted(manyWriters)}
	}
	tests := map[string]struct {
		code codes.Code
		req  *csipb.ControllerPublishVolumeRequest
	}{
		"no volume":       {codes.InvalidArgument, request("", "id-1")},
		"no node":         {codes.InvalidArgument, request(v.VolumeId, "")},
		"unknown volume":  {codes.NotFound, request("other", "id-1")},
		"unknown node":    {codes.NotFound, request(v.VolumeId, "id-2")},
		"a full node":     {codes.ResourceExhausted, request(r.create("pvc-2").VolumeId, "id-1")},
		"another mode":    {codes.AlreadyExists, &csipb.ControllerPublishVolumeRequest{VolumeId: v.VolumeId, NodeId: "id-1", VolumeCapability: mounted(writer)}},
		"read-only":       {codes.InvalidArgument, &csipb.ControllerPublishVolumeRequest{VolumeId: v.VolumeId, NodeId: "id-1", VolumeCapability: mounted(manyWriters), Readonly: true}},
		"another context": {codes.InvalidArgument, &csipb.ControllerPublishVolumeRequest{VolumeId: v.VolumeId, NodeId: "id-1", VolumeCapability: mounted(manyWriters), VolumeContext: map[string]string{driver.VersionKey: "1", driver.SourceKey: `{"local":{"path":"/"}}`}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := r.controller.ControllerPublishVolume(t.Context(), test.req)
			requireCode(t, test.code, err)
		})
	}
	require.NoError(t, r.delete(r.create("pvc-2").VolumeId), "a failed Attach leaves no record")

	r.plugin.Inject(volumetest.Fault{Method: volumetest.Detach, Err: volume.ErrUncertain, Times: 1})
	requireCode(t, codes.Aborted, r.detach(v))
	requireCode(t, codes.FailedPrecondition, r.delete(v.VolumeId))
	_, err = r.controller.ControllerUnpublishVolume(t.Context(), &csipb.ControllerUnpublishVolumeRequest{VolumeId: v.VolumeId})
	require.NoError(t, err, "from all nodes")
	require.NoError(t, r.detach(v), "repeated")
	require.NoError(t, r.delete(v.VolumeId))
	r.requireNoRecords()
}

// TestAttachedToAnotherNode: the error names the node.
func TestAttachedToAnotherNode(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.create("pvc-1")
	r.attach(v, writer)
	_, err := r.controller.ControllerPublishVolume(t.Context(), &csipb.ControllerPublishVolumeRequest{VolumeId: v.VolumeId, NodeId: "node-2", VolumeCapability: mounted(writer)})
	requireCode(t, codes.FailedPrecondition, err)
	require.ErrorContains(t, err, "node-1")
}

// TestExpand: the size grows to the request and within the limit, and is recorded.
func TestExpand(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{MaxSize: 1 << 30}, nil)
	v := r.create("pvc-1")
	expand := func(id string, required, limit int64) (*csipb.ControllerExpandVolumeResponse, error) {
		return r.controller.ControllerExpandVolume(t.Context(), &csipb.ControllerExpandVolumeRequest{
			VolumeId: id, CapacityRange: &csipb.CapacityRange{RequiredBytes: required, LimitBytes: limit},
		})
	}
	resp, err := expand(v.VolumeId, 1<<21, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1<<21, resp.CapacityBytes)
	require.True(t, resp.NodeExpansionRequired)
	r.restart()
	resp, err = expand(v.VolumeId, 1<<20, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1<<21, resp.CapacityBytes, "it never shrinks, and the record has the size")

	calls := r.plugin.Calls(volumetest.ExpandVolumeDevice)
	for _, required := range []int64{0, 1, 1 << 21} {
		resp, err = expand(v.VolumeId, required, 1<<22)
		require.NoError(t, err)
		require.EqualValues(t, 1<<21, resp.CapacityBytes)
		require.True(t, resp.NodeExpansionRequired)
	}
	require.Equal(t, calls, r.plugin.Calls(volumetest.ExpandVolumeDevice), "the volume is large enough")

	_, err = expand(v.VolumeId, 1, 1<<20)
	requireCode(t, codes.OutOfRange, err)
	_, err = expand(v.VolumeId, 1<<31, 0)
	requireCode(t, codes.OutOfRange, err)
	_, err = expand("other", 1<<21, 0)
	requireCode(t, codes.NotFound, err)
	_, err = r.controller.ControllerExpandVolume(t.Context(), &csipb.ControllerExpandVolumeRequest{VolumeId: v.VolumeId})
	requireCode(t, codes.InvalidArgument, err)
	r.plugin.Inject(volumetest.Fault{Method: volumetest.ExpandVolumeDevice, Err: volume.ErrFailedPrecondition, Times: 1})
	_, err = expand(v.VolumeId, 1<<22, 0)
	requireCode(t, codes.FailedPrecondition, err)
}

// TestListPages: the pages together are all volumes, also while volumes are created and deleted.
func TestListPages(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	for _, name := range []string{"pvc-1", "pvc-2", "pvc-3", "pvc-4", "pvc-5"} {
		r.create(name)
	}
	var ids []string
	token := ""
	for pages := 1; ; pages++ {
		list, err := r.controller.ListVolumes(t.Context(), &csipb.ListVolumesRequest{MaxEntries: 2, StartingToken: token})
		require.NoError(t, err)
		for _, entry := range list.Entries {
			ids = append(ids, entry.Volume.VolumeId)
		}
		if len(list.Entries) > 0 {
			require.NoError(t, r.delete(list.Entries[len(list.Entries)-1].Volume.VolumeId), "the token may name a deleted volume")
		}
		if token = list.NextToken; token == "" {
			require.Equal(t, 3, pages)
			break
		}
	}
	require.Len(t, ids, 5)
	for _, invalid := range []string{"invalid-token", "after-", "after-../x", strings.Repeat("a", 1<<16)} {
		_, err := r.controller.ListVolumes(t.Context(), &csipb.ListVolumesRequest{StartingToken: invalid})
		requireCode(t, codes.Aborted, err)
	}
	_, err := r.controller.ListVolumes(t.Context(), &csipb.ListVolumesRequest{MaxEntries: -1})
	requireCode(t, codes.InvalidArgument, err)
}

// TestBrokenRecord: an unreadable record costs its volume alone.
func TestBrokenRecord(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	r.create("pvc-1")
	files, err := filepath.Glob(r.root + "/plugins/volumekit.io/csi/fake.example.com/controller/volumes/*.json")
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.WriteFile(files[0], []byte(`{"version":1`), 0o600))
	r.restart()
	_, err = r.controller.CreateVolume(t.Context(), createRequest("pvc-1"))
	requireCode(t, codes.Internal, err)
	v := r.create("pvc-2")
	list, err := r.controller.ListVolumes(t.Context(), &csipb.ListVolumesRequest{})
	require.NoError(t, err)
	require.Len(t, list.Entries, 1)
	require.Equal(t, v.VolumeId, list.Entries[0].Volume.VolumeId)

	r.attach(v, manyWriters)
	files, err = filepath.Glob(r.root + "/plugins/volumekit.io/csi/fake.example.com/controller/attached/*.json")
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.WriteFile(files[0], nil, 0o600))
	r.create("pvc-3")
	list, err = r.controller.ListVolumes(t.Context(), &csipb.ListVolumesRequest{})
	require.NoError(t, err)
	require.Len(t, list.Entries, 2)
	require.Nil(t, list.Entries[0].Status, "not known")
	require.NotNil(t, list.Entries[1].Status)
}

// TestDeleteChecksTheRecord: a record that names the storage of another volume deletes nothing.
func TestDeleteChecksTheRecord(t *testing.T) {
	for _, field := range []string{"volume", "both"} {
		t.Run(field, func(t *testing.T) {
			r := newRig(t, volumetest.FakeConfig{}, nil)
			v := r.create("pvc-1")
			files, err := filepath.Glob(r.root + "/plugins/volumekit.io/csi/fake.example.com/controller/volumes/*.json")
			require.NoError(t, err)
			require.Len(t, files, 1)
			text, err := os.ReadFile(files[0])
			require.NoError(t, err)
			own := r.root + "/plugins/volumekit.io/fake/provisioned/pvc-1"
			changed := strings.Replace(string(text), `"directory":"`+own, `"directory":"`+r.root+"/other", 1)
			require.NotEqual(t, string(text), changed)
			if field == "both" {
				changed = strings.ReplaceAll(changed, own, r.root+"/other")
			}
			require.NoError(t, os.WriteFile(files[0], []byte(changed), 0o600))
			requireCode(t, codes.Internal, r.delete(v.VolumeId))
			require.Zero(t, r.plugin.Calls(volumetest.Delete))
		})
	}
}

// TestValidate confirms the capabilities of the volume, and names those that it lacks.
func TestValidate(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.create("pvc-1")
	validate := func(change func(*csipb.ValidateVolumeCapabilitiesRequest)) (*csipb.ValidateVolumeCapabilitiesResponse, error) {
		req := &csipb.ValidateVolumeCapabilitiesRequest{VolumeId: v.VolumeId, VolumeCapabilities: []*csipb.VolumeCapability{mounted(writer)}}
		change(req)
		return r.controller.ValidateVolumeCapabilities(t.Context(), req)
	}
	resp, err := validate(func(req *csipb.ValidateVolumeCapabilitiesRequest) { req.VolumeContext = v.VolumeContext })
	require.NoError(t, err)
	require.Len(t, resp.GetConfirmed().GetVolumeCapabilities(), 1)
	require.Equal(t, v.VolumeContext, resp.GetConfirmed().GetVolumeContext())
	for name, change := range map[string]func(*csipb.ValidateVolumeCapabilitiesRequest){
		"block":      func(r *csipb.ValidateVolumeCapabilitiesRequest) { r.VolumeCapabilities[0] = block(writer) },
		"mode":       func(r *csipb.ValidateVolumeCapabilitiesRequest) { r.VolumeCapabilities[0] = mounted(99) },
		"parameters": func(r *csipb.ValidateVolumeCapabilitiesRequest) { r.Parameters = map[string]string{"a": "b"} },
	} {
		resp, err := validate(change)
		require.NoError(t, err, name)
		require.Nil(t, resp.GetConfirmed(), name)
		require.NotEmpty(t, resp.GetMessage(), name)
	}
	_, err = validate(func(req *csipb.ValidateVolumeCapabilitiesRequest) { req.VolumeId = "other" })
	requireCode(t, codes.NotFound, err)
	_, err = validate(func(req *csipb.ValidateVolumeCapabilitiesRequest) { req.VolumeCapabilities = nil })
	requireCode(t, codes.InvalidArgument, err)
}

func block(mode csipb.VolumeCapability_AccessMode_Mode) *csipb.VolumeCapability {
	return &csipb.VolumeCapability{
		AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}},
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: mode},
	}
}
