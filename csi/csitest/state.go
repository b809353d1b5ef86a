package csitest

import (
	"maps"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// A volumeState is the state of a volume: in effect, and as the client knows it.
//
//	absent --CreateVolume--> created --ControllerPublish--> attached (by node)
//	       --NodeStage--> staged (by path) --NodePublish--> published (by path)
//
// The call up of a place makes the outcome unknown, until a success or a final error. The call down
// does the same for a place that is not known to be absent.
type volumeState struct {
	creation  place
	context   map[string]string
	capacity  int64
	mutable   map[string]string // parameters
	source    *csipb.VolumeContentSource
	topology  []*csipb.Topology
	attached  places           // by node ID
	staged    places           // by path
	published places           // by path
	requested map[Method]int64 // largest size of an expansion
}

// A place is a node or a path at which a volume can be.
type place struct {
	inEffect bool
	known    knowledge // of the client
	before   knowledge // before the call in progress
	request  proto.Message
	context  map[string]string // publish context
	created  bool              // the driver has created the target
}

type places map[string]*place

// knowledge is a client's knowledge of a place.
type knowledge int

const (
	knownAbsent knowledge = iota
	knownPresent
	unknownOutcome
)

// at returns a place, and adds it if it is new.
func (p places) at(key string) *place {
	if p[key] == nil {
		p[key] = new(place)
	}
	return p[key]
}

func (p places) keysInEffect() []string {
	return p.keys(func(at *place) bool { return at.inEffect })
}

// keys returns the sorted keys of places.
func (p places) keys(is func(at *place) bool) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(p)) {
		if is(p[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}

// possible returns the places at which, as far as the client can know, the volume may be.
func (p places) possible() []string {
	return p.keys(func(at *place) bool { return at.known != knownAbsent })
}

// isInUse reports whether the client may have staged or published the volume.
func (v *volumeState) isInUse() bool { return len(v.staged.possible())+len(v.published.possible()) > 0 }

// volume returns the state of a volume, and adds it if it is new. The caller holds d.mu.
func (d *Driver) volume(id string) *volumeState {
	if d.volumes[id] == nil {
		d.volumes[id] = &volumeState{attached: places{}, staged: places{}, published: places{}, requested: map[Method]int64{}}
	}
	return d.volumes[id]
}

// volumeKey returns the ID of a request's volume. The ID of a created volume is its name.
func volumeKey(req proto.Message) string {
	switch r := req.(type) {
	case interface{ GetVolumeId() string }:
		return r.GetVolumeId()
	case *csipb.CreateVolumeRequest:
		return r.GetName()
	}
	return ""
}

// A direction says whether a call puts a volume at a place, or takes it away.
type direction int

const (
	up direction = iota
	down
)

// placesOf returns the places that a call changes.
func (v *volumeState) placesOf(req proto.Message) (changed []*place, way direction) {
	switch r := req.(type) {
	case *csipb.CreateVolumeRequest:
		return []*place{&v.creation}, up
	case *csipb.DeleteVolumeRequest:
		return []*place{&v.creation}, down
	case *csipb.ControllerPublishVolumeRequest:
		return []*place{v.attached.at(r.GetNodeId())}, up
	case *csipb.ControllerUnpublishVolumeRequest:
		if r.GetNodeId() == "" {
			return slices.Collect(maps.Values(v.attached)), down
		}
		return []*place{v.attached.at(r.GetNodeId())}, down
	case *csipb.NodeStageVolumeRequest:
		return []*place{v.staged.at(r.GetStagingTargetPath())}, up
	case *csipb.NodeUnstageVolumeRequest:
		return []*place{v.staged.at(r.GetStagingTargetPath())}, down
	case *csipb.NodePublishVolumeRequest:
		return []*place{v.published.at(r.GetTargetPath())}, up
	case *csipb.NodeUnpublishVolumeRequest:
		return []*place{v.published.at(r.GetTargetPath())}, down
	}
	return nil, up
}

// expectOutcome records that the outcome of a call is unknown from now on. The caller holds d.mu.
func (d *Driver) expectOutcome(call *Call) {
	if call.volume == "" {
		return
	}
	v := d.volume(call.volume)
	if size := sizeOf(call.Request); size > v.requested[call.Method] {
		v.requested[call.Method] = size
	}
	changed, way := v.placesOf(call.Request)
	for _, at := range changed {
		at.before = at.known
		switch {
		case way == up && at.known == knownAbsent:
			at.known, at.request = unknownOutcome, call.Request
		case way == down && at.known == knownPresent:
			at.known = unknownOutcome
		}
	}
}

// learnOutcome records the outcome of a call that the client has seen. The caller holds d.mu.
func (d *Driver) learnOutcome(call *Call) {
	changed, way := d.volume(call.volume).placesOf(call.Request)
	for _, at := range changed {
		switch {
		case call.Err == nil && way == up:
			at.known = knownPresent
		case call.Err == nil, way == up && call.isFinal() && at.before != knownPresent:
			at.known, at.request = knownAbsent, nil
		case call.isFinal():
			at.known = at.before
		}
	}
}

// isFinal reports whether the client knows after an error that the call had no effect.
func (c *Call) isFinal() bool {
	switch c.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		return false
	case codes.ResourceExhausted: // no volume can be created in the topology
		create, ok := c.Request.(*csipb.CreateVolumeRequest)
		return ok && create.GetAccessibilityRequirements() != nil
	}
	return true
}

// sizeOf returns the size that an expansion requires. 0: none.
func sizeOf(req proto.Message) int64 {
	switch r := req.(type) {
	case *csipb.ControllerExpandVolumeRequest:
		return r.GetCapacityRange().GetRequiredBytes()
	case *csipb.NodeExpandVolumeRequest:
		return r.GetCapacityRange().GetRequiredBytes()
	}
	return 0
}
