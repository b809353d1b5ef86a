package main

import (
	"context"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A growingDriver is a CSI driver that expands volumes, and fails as the situation of each volume says.
type growingDriver struct {
	comparedDriver[growingVolume]
}

// A growingVolume is the state of a volume by which the driver answers.
type growingVolume struct {
	outcome
	limit string // sizes above it are out of range; "": none
	// rounds makes the sizes multiples of this one; "": no
	rounds    string
	needsNode bool
	sizes     []string // that the driver was asked for, each once, sorted
}

func newGrowingDriver() *growingDriver {
	d := &growingDriver{}
	d.plugin = []*csipb.PluginCapability{{Type: &csipb.PluginCapability_VolumeExpansion_{
		VolumeExpansion: &csipb.PluginCapability_VolumeExpansion{Type: csipb.PluginCapability_VolumeExpansion_ONLINE},
	}}}
	d.controller = []csipb.ControllerServiceCapability_RPC_Type{csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME}
	return d
}

// sizesOf returns the sizes that the driver was asked for.
func (d *growingDriver) sizesOf(volume string) (sizes []string) {
	d.edit(volume, func(v *growingVolume) { sizes = slices.Clone(v.sizes) })
	return sizes
}

// ControllerExpandVolume implements csipb.ControllerServer.
func (d *growingDriver) ControllerExpandVolume(_ context.Context, req *csipb.ControllerExpandVolumeRequest) (answer *csipb.ControllerExpandVolumeResponse, err error) {
	d.edit(req.GetVolumeId(), func(v *growingVolume) { answer, err = v.grow(req.GetCapacityRange().GetRequiredBytes()) })
	return answer, err
}

// grow answers a call for a size.
func (v *growingVolume) grow(size int64) (*csipb.ControllerExpandVolumeResponse, error) {
	asked := resource.NewQuantity(size, resource.BinarySI)
	v.sizes = append(v.sizes, asked.String())
	slices.Sort(v.sizes)
	v.sizes = slices.Compact(v.sizes)
	if v.limit != "" {
		if limit := resource.MustParse(v.limit); asked.Cmp(limit) > 0 {
			return nil, status.Errorf(codes.OutOfRange, "%s is more than %s", asked, v.limit)
		}
	}
	if err := v.next(); err != nil {
		return nil, err
	}
	if v.rounds != "" {
		unit := resource.MustParse(v.rounds)
		size = (size + unit.Value() - 1) / unit.Value() * unit.Value()
	}
	return &csipb.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: v.needsNode}, nil
}
