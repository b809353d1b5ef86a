package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
)

// An attachingDriver is a CSI driver that publishes volumes to nodes, and fails as the situation of each volume says.
type attachingDriver struct {
	comparedDriver[attachingVolume]
	lists atomic.Int32 // the number of calls of ListVolumes
}

// An attachingVolume is the state of the volumes of a scene by which the driver answers.
type attachingVolume struct {
	publish, unpublish callOutcome
	context            map[string]string // the publish context
	published          []target          // sorted
	calls              []string          // that the driver has received, each once, sorted
}

// A target is a volume that is published to a node.
type target struct{ volume, nodeID string }

func (t target) String() string { return t.volume + " to " + t.nodeID }

func compareTargets(a, b target) int { return strings.Compare(a.String(), b.String()) }

// publishTo records that a volume is published to a node.
func (v *attachingVolume) publishTo(t target) { v.published = insert(v.published, t, compareTargets) }

// A callOutcome is that of the next calls of one method.
type callOutcome struct {
	outcome
	hasEffect bool // also of calls that fail
	delay     time.Duration
	delays    int // the number of calls that last for delay
}

// newAttachingDriver returns a driver with more capabilities of the controller service.
func newAttachingDriver(controller ...csipb.ControllerServiceCapability_RPC_Type) *attachingDriver {
	d := &attachingDriver{}
	d.controller = append(controller,
		csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME, csipb.ControllerServiceCapability_RPC_PUBLISH_READONLY)
	return d
}

// sceneOf returns the scene of a volume: other volumes of a scene have a suffix.
func sceneOf(volume string) string {
	scene, _, _ := strings.Cut(volume, "-")
	return scene
}

// ControllerPublishVolume implements csipb.ControllerServer.
func (d *attachingDriver) ControllerPublishVolume(_ context.Context, req *csipb.ControllerPublishVolumeRequest) (answer *csipb.ControllerPublishVolumeResponse, err error) {
	scene := sceneOf(req.GetVolumeId())
	d.receive(scene, publishText(req), func(v *attachingVolume) *callOutcome { return &v.publish })
	d.edit(scene, func(v *attachingVolume) {
		if err = v.publish.next(); err == nil || v.publish.hasEffect {
			v.publishTo(target{req.GetVolumeId(), req.GetNodeId()})
		}
		answer = &csipb.ControllerPublishVolumeResponse{PublishContext: v.context}
	})
	return answer, err
}

// ControllerUnpublishVolume implements csipb.ControllerServer.
func (d *attachingDriver) ControllerUnpublishVolume(_ context.Context, req *csipb.ControllerUnpublishVolumeRequest) (_ *csipb.ControllerUnpublishVolumeResponse, err error) {
	scene := sceneOf(req.GetVolumeId())
	d.receive(scene, unpublishText(req), func(v *attachingVolume) *callOutcome { return &v.unpublish })
	d.edit(scene, func(v *attachingVolume) {
		if err = v.unpublish.next(); err == nil || v.unpublish.hasEffect {
			v.published = slices.DeleteFunc(v.published, func(t target) bool { return t == target{req.GetVolumeId(), req.GetNodeId()} })
		}
	})
	return &csipb.ControllerUnpublishVolumeResponse{}, err
}

// ListVolumes implements csipb.ControllerServer.
func (d *attachingDriver) ListVolumes(context.Context, *csipb.ListVolumesRequest) (*csipb.ListVolumesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lists.Add(1)
	nodes := map[string][]string{}
	for _, v := range d.volumes {
		for _, t := range v.published {
			nodes[t.volume] = append(nodes[t.volume], t.nodeID)
		}
	}
	answer := &csipb.ListVolumesResponse{}
	for volume, ids := range nodes {
		answer.Entries = append(answer.Entries, &csipb.ListVolumesResponse_Entry{
			Volume: &csipb.Volume{VolumeId: volume}, Status: &csipb.ListVolumesResponse_VolumeStatus{PublishedNodeIds: ids},
		})
	}
	return answer, nil
}

// receive records a call, and waits for its delay.
func (d *attachingDriver) receive(scene, call string, of func(*attachingVolume) *callOutcome) {
	var delay time.Duration
	d.edit(scene, func(v *attachingVolume) {
		v.calls = insert(v.calls, call, strings.Compare)
		if outcome := of(v); outcome.delays > 0 {
			outcome.delays--
			delay = outcome.delay
		}
	})
	time.Sleep(delay)
}

// insert adds a value to a sorted list that has each value once.
func insert[V any](list []V, value V, compare func(V, V) int) []V {
	at, isPresent := slices.BinarySearchFunc(list, value, compare)
	if isPresent {
		return list
	}
	return slices.Insert(list, at, value)
}

func publishText(req *csipb.ControllerPublishVolumeRequest) string {
	capability, access := req.GetVolumeCapability(), "block"
	if mount := capability.GetMount(); mount != nil {
		access = fmt.Sprintf("mount %q %v", mount.GetFsType(), mount.GetMountFlags())
	}
	return fmt.Sprintf("publish %s to %s, read-only %v, %v %s, context %v, secrets %v", req.GetVolumeId(), req.GetNodeId(), req.GetReadonly(),
		capability.GetAccessMode().GetMode(), access, req.GetVolumeContext(), slices.Sorted(maps.Keys(req.GetSecrets())))
}

func unpublishText(req *csipb.ControllerUnpublishVolumeRequest) string {
	return fmt.Sprintf("unpublish %s from %s, secrets %v", req.GetVolumeId(), req.GetNodeId(), slices.Sorted(maps.Keys(req.GetSecrets())))
}
