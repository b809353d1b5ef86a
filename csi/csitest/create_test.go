package csitest_test

import (
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volumekit/volumekit/csi/csitest"
)

// TestCreateVolume: a new volume is a copy of its source, in the topology that the client prefers. A driver that is
// full in a topology has created nothing, so that the next call may name another one; otherwise the outcome is unknown.
func TestCreateVolume(t *testing.T) {
	c := newClient(t, csitest.Config{KnownVolumes: true, Capabilities: csitest.Capabilities{
		Plugin: []csipb.PluginCapability_Service_Type{
			csipb.PluginCapability_Service_CONTROLLER_SERVICE, csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
		},
		Controller: []csipb.ControllerServiceCapability_RPC_Type{
			csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csipb.ControllerServiceCapability_RPC_CLONE_VOLUME,
		},
	}})
	request := func(name string, zones ...string) *csipb.CreateVolumeRequest {
		r := &csipb.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csipb.VolumeCapability{{
			AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}},
			AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}}}
		for _, zone := range zones {
			if r.AccessibilityRequirements == nil {
				r.AccessibilityRequirements = &csipb.TopologyRequirement{}
			}
			r.AccessibilityRequirements.Requisite = append(r.AccessibilityRequirements.Requisite, &csipb.Topology{Segments: map[string]string{"zone": zone}})
		}
		return r
	}
	create := func(r *csipb.CreateVolumeRequest) (*csipb.Volume, error) {
		answer, err := c.controller.CreateVolume(t.Context(), r)
		return answer.GetVolume(), err
	}
	copied := request("copy")
	copied.VolumeContentSource = &csipb.VolumeContentSource{Type: &csipb.VolumeContentSource_Volume{Volume: &csipb.VolumeContentSource_VolumeSource{VolumeId: "source"}}}
	_, err := create(copied)
	require.Equal(t, codes.NotFound, status.Code(err))
	_, err = create(request("source"))
	require.NoError(t, err)
	v, err := create(copied)
	require.NoError(t, err)
	require.Equal(t, "source", v.GetContentSource().GetVolume().GetVolumeId())
	_, err = c.controller.DeleteVolume(t.Context(), &csipb.DeleteVolumeRequest{VolumeId: "source"})
	require.NoError(t, err)
	again, err := create(copied)
	require.NoError(t, err, "the copy exists, and its source has ended")
	require.Equal(t, v.VolumeId, again.VolumeId)

	c.driver.Inject(csitest.Fault{Method: csitest.CreateVolume, Code: codes.ResourceExhausted, Times: 1})
	_, err = create(request("zoned", "north"))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	v, err = create(request("zoned", "south", "north"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"zone": "south"}, v.AccessibleTopology[0].Segments)
	require.Empty(t, c.driver.Violations())

	c.driver.Inject(csitest.Fault{Method: csitest.CreateVolume, Code: codes.ResourceExhausted, Times: 1})
	_, err = create(request("plain"))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	_, err = create(request("plain", "north"))
	require.Equal(t, codes.AlreadyExists, status.Code(err))
	require.Equal(t, csitest.RuleSameArguments, c.driver.Violations()[0].Rule)
}
