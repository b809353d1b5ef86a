package driver

import (
	"context"
	"path"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/internal/input"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeGetInfo implements the node service.
func (d *driver) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	resp := &csipb.NodeGetInfoResponse{NodeId: d.config.NodeID, MaxVolumesPerNode: d.config.MaxVolumes}
	if own := d.ownTopology(); own != nil {
		resp.AccessibleTopology = &csipb.Topology{Segments: own}
	}
	return resp, nil
}

// NodeGetCapabilities implements the node service.
func (d *driver) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	resp := &csipb.NodeGetCapabilitiesResponse{}
	declare := func(able bool, t csipb.NodeServiceCapability_RPC_Type) {
		if able {
			resp.Capabilities = append(resp.Capabilities, &csipb.NodeServiceCapability{
				Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: t}},
			})
		}
	}
	declare(d.stages(), csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	declare(true, csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS)
	declare(true, condition.Capability)
	declare(d.nodeExpand != nil, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME)
	declare(true, csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
	declare(d.config.MountGroup, csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP)
	return resp, nil
}

// podAt returns the pod in whose name a volume is published at a path. Calls name no pod: its UID is
// derived from the path.
func podAt(target string) *v1.Pod {
	uid := hexSum(target)[:32]
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "csi-" + uid, Namespace: "csi", UID: types.UID(uid)}}
}

// waitForAttach returns the device of a volume that is attached, or "" for one that is not.
func (d *driver) waitForAttach(ctx context.Context, v described, u usage, publishContext map[string]string, at string) (device string, err error) {
	spec, err := v.spec(u)
	if err != nil {
		return "", err
	}
	attacher, err := d.attacherOf(ctx, spec)
	if err != nil || attacher == nil {
		return "", err
	}
	return attacher.WaitForAttach(ctx, spec, publishContext[DeviceKey], podAt(at))
}

// A use is a place at which a volume is used on this node.
type use struct {
	path      string // of the caller
	record    usageRecord
	published bool
}

func (u use) usage() usage {
	return usage{block: u.record.Block, fsType: u.record.FSType, mode: u.record.Mode}
}

// isTaken reports whether another volume has been published at a path since the start of the system.
func (d *driver) isTaken(id volumeID, p targetRecord) bool {
	holder := d.targets.holder(p.Path)
	return holder != "" && holder != id.text
}

// usedAt returns the record of a volume that is published or staged at a path. Another volume, or
// another path, is NOT_FOUND.
func (d *driver) usedAt(id volumeID, at string) (rec *nodeRecord, used use, err error) {
	rec, err = d.onNode.read(id.text)
	if err != nil {
		return nil, used, err
	}
	clean := path.Clean(at)
	if rec != nil && path.IsAbs(at) && !strings.ContainsRune(at, 0) {
		if p := rec.at(clean); p != nil && !d.isTaken(id, *p) {
			return rec, use{clean, p.Usage, true}, nil
		}
		if rec.Staged != nil && rec.Staged.Path == clean {
			return rec, use{clean, rec.Staged.Usage, false}, nil
		}
	}
	return nil, used, codedf(codes.NotFound, "volume %s is not used at %s", input.Quote(id.text), input.Quote(at))
}
