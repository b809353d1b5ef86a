package csitest

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// check checks the rules for a new call. It returns the error of a call that the driver refuses. The
// caller holds d.mu.
func (d *Driver) check(call *Call, service string) error {
	d.checkInFlight(call)
	err := cmp.Or(d.checkCapabilities(call, service), d.checkFields(call), d.checkSecrets(call))
	if err == nil && call.volume != "" {
		err = d.checkState(call, d.volume(call.volume))
	}
	return err
}

func (d *Driver) checkInFlight(call *Call) {
	for _, other := range d.inFlight {
		if call.volume != "" && other.volume == call.volume && other.isAwaited() {
			d.violate(call, RuleOneCall, "%s of call %d is in flight", other.Method, other.Number)
		}
	}
}

// checkState checks a call against the state of its volume.
func (d *Driver) checkState(call *Call, v *volumeState) error {
	switch r := call.Request.(type) {
	case *csipb.CreateVolumeRequest:
		return d.checkRepeat(call, &v.creation)
	case *csipb.DeleteVolumeRequest:
		return d.checkDelete(call, v)
	case *csipb.ControllerPublishVolumeRequest:
		return d.checkAttach(call, v, r)
	case *csipb.ControllerUnpublishVolumeRequest:
		return d.checkDetach(call, v, r.GetNodeId())
	case *csipb.ControllerExpandVolumeRequest:
		return d.checkControllerExpand(call, v, r)
	case *csipb.NodeStageVolumeRequest:
		return d.checkStage(call, v, r)
	case *csipb.NodeUnstageVolumeRequest:
		return d.checkUnstage(call, v)
	case *csipb.NodePublishVolumeRequest:
		return d.checkPublish(call, v, r)
	case *csipb.NodeGetVolumeStatsRequest:
		return d.checkVolumePath(call, v, r.GetVolumePath())
	case *csipb.NodeExpandVolumeRequest:
		return d.checkNodeExpand(call, v, r)
	}
	return nil
}

// refuse records a violation, and returns the error of the call.
func (d *Driver) refuse(call *Call, code codes.Code, rule Rule, format string, args ...any) error {
	d.violate(call, rule, format, args...)
	return status.Errorf(code, format, args...)
}

// checkRepeat checks the arguments of a repeated call.
func (d *Driver) checkRepeat(call *Call, at *place) error {
	if at.known == knownAbsent || at.request == nil || repeats(at.request, call.Request) {
		return nil
	}
	return d.refuse(call, codes.AlreadyExists, RuleSameArguments, "the arguments were: %s", Text(at.request))
}

func (d *Driver) checkDelete(call *Call, v *volumeState) error {
	if nodes := v.attached.possible(); len(nodes) > 0 || v.isInUse() {
		return d.refuse(call, codes.FailedPrecondition, RuleDeleteLast, "the volume is in use (on the nodes %q)", nodes)
	}
	return nil
}

func (d *Driver) checkAttach(call *Call, v *volumeState, r *csipb.ControllerPublishVolumeRequest) error {
	if err := d.checkVolumeContext(call, v, r.GetVolumeContext()); err != nil {
		return err
	}
	others := v.attached.possible()
	for _, node := range others {
		if node != r.GetNodeId() && isSingleNode(r.GetVolumeCapability()) {
			return d.refuse(call, codes.FailedPrecondition, RuleOneWriter, "the volume is attached to %q", node)
		}
	}
	return d.checkRepeat(call, v.attached.at(r.GetNodeId()))
}

func isSingleNode(capability *csipb.VolumeCapability) bool {
	switch capability.GetAccessMode().GetMode() {
	case csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, csipb.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return false
	}
	return true
}

// checkDetach checks the detachment from a node; an empty node ID means all nodes.
func (d *Driver) checkDetach(call *Call, v *volumeState, node string) error {
	if (node == "" || node == d.config.NodeID) && v.isInUse() {
		return d.refuse(call, codes.FailedPrecondition, RuleDetachLast, "staged at %q, published at %q", v.staged.possible(), v.published.possible())
	}
	return nil
}

func (d *Driver) checkControllerExpand(call *Call, v *volumeState, r *csipb.ControllerExpandVolumeRequest) error {
	if err := d.checkGrowth(call, v, r.GetCapacityRange().GetRequiredBytes()); err != nil {
		return err
	}
	isOnline := false
	for _, expansion := range d.config.Capabilities.Expansion {
		isOnline = isOnline || expansion == csipb.PluginCapability_VolumeExpansion_ONLINE
	}
	isUsed := v.isInUse()
	if d.attaches() {
		isUsed = len(v.attached.possible()) > 0
	}
	if !isOnline && isUsed {
		return d.refuse(call, codes.FailedPrecondition, RuleExpandOrder, "the volume is in use, and expands offline")
	}
	return nil
}

// checkGrowth checks that a size is not smaller than in an earlier call of the method.
func (d *Driver) checkGrowth(call *Call, v *volumeState, size int64) error {
	if earlier := v.requested[call.Method]; size < earlier {
		return d.refuse(call, codes.OutOfRange, RuleShrink, "%d bytes, and earlier %d", size, earlier)
	}
	return nil
}

func (d *Driver) checkNodeExpand(call *Call, v *volumeState, r *csipb.NodeExpandVolumeRequest) error {
	if err := d.checkVolumePath(call, v, r.GetVolumePath()); err != nil {
		return err
	}
	size := r.GetCapacityRange().GetRequiredBytes()
	if d.declaresController(csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME) && v.capacity > 0 && size > v.capacity {
		return d.refuse(call, codes.OutOfRange, RuleExpandOrder, "%d bytes, and the controller has expanded to %d", size, v.capacity)
	}
	return d.checkGrowth(call, v, size)
}

// checkVolumePath checks that a volume is staged or published at a path, as far as the client knows.
func (d *Driver) checkVolumePath(call *Call, v *volumeState, at string) error {
	for _, places := range []places{v.staged, v.published} {
		if p := places[at]; p != nil && p.known != knownAbsent {
			return nil
		}
	}
	return d.refuse(call, codes.NotFound, RuleVolumePath, "the volume is neither staged nor published at %q", at)
}

// checkContexts checks the volume context, the attachment and its publish context.
func (d *Driver) checkContexts(call *Call, v *volumeState, volumeContext, publishContext map[string]string) error {
	if err := d.checkVolumeContext(call, v, volumeContext); err != nil {
		return err
	}
	if isEphemeral(call.volume, volumeContext) {
		return nil
	}
	at := v.attached[d.config.NodeID]
	switch {
	case !d.attaches():
		at = &place{}
	case at == nil || at.known != knownPresent:
		return d.refuse(call, codes.FailedPrecondition, RuleAttachFirst, "the volume is not attached to %q", d.config.NodeID)
	}
	if !equalMaps(publishContext, at.context) {
		return d.refuse(call, codes.InvalidArgument, RulePublishContext, "%q instead of %q", publishContext, at.context)
	}
	return nil
}

func equalMaps(a, b map[string]string) bool {
	return len(a) == len(b) && (len(a) == 0 || maps.Equal(a, b))
}

// contextPrefix begins the keys that Kubernetes adds to a volume context.
const contextPrefix = "csi.storage.k8s.io/"

func (d *Driver) checkVolumeContext(call *Call, v *volumeState, got map[string]string) error {
	if !v.creation.inEffect {
		return nil
	}
	isAdded := func(key, _ string) bool { return strings.HasPrefix(key, contextPrefix) }
	got, want := maps.Clone(got), maps.Clone(v.context)
	maps.DeleteFunc(got, isAdded)
	maps.DeleteFunc(want, isAdded)
	if !equalMaps(got, want) {
		return d.refuse(call, codes.InvalidArgument, RuleVolumeContext, "%q instead of %q", got, want)
	}
	return nil
}

// ephemeralID is the form of the IDs of inline volumes.
var ephemeralID = regexp.MustCompile(`^csi-[0-9a-f]{64}$`)

// isEphemeral reports whether a volume is an inline volume of a pod, which is published alone.
func isEphemeral(volume string, volumeContext map[string]string) bool {
	return volumeContext[contextPrefix+"ephemeral"] == "true" || ephemeralID.MatchString(volume)
}

func (d *Driver) checkStage(call *Call, v *volumeState, r *csipb.NodeStageVolumeRequest) error {
	at := r.GetStagingTargetPath()
	if err := d.checkContexts(call, v, r.GetVolumeContext(), r.GetPublishContext()); err != nil {
		return err
	}
	for _, other := range v.staged.possible() {
		if other != at {
			return d.refuse(call, codes.FailedPrecondition, RuleStageOnce, "staged at %q", other)
		}
	}
	if err := d.checkOneVolume(call, at); err != nil {
		return err
	}
	if !d.isDirectory(at) {
		return d.refuse(call, codes.FailedPrecondition, RuleStagingDirectory, "%q is no directory", at)
	}
	return d.checkRepeat(call, v.staged.at(at))
}

func (d *Driver) checkUnstage(call *Call, v *volumeState) error {
	if targets := v.published.possible(); len(targets) > 0 {
		return d.refuse(call, codes.FailedPrecondition, RuleUnpublishFirst, "published at %q", targets)
	}
	return nil
}

func (d *Driver) checkPublish(call *Call, v *volumeState, r *csipb.NodePublishVolumeRequest) error {
	target := r.GetTargetPath()
	at := v.published.at(target)
	if err := d.checkContexts(call, v, r.GetVolumeContext(), r.GetPublishContext()); err != nil {
		return err
	}
	if err := d.checkStaged(call, v, r); err != nil {
		return err
	}
	if err := d.checkOneVolume(call, target); err != nil {
		return err
	}
	isOneWriter := r.GetVolumeCapability().GetAccessMode().GetMode() == csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	for _, other := range v.published.possible() {
		if other != target && isOneWriter {
			return d.refuse(call, codes.FailedPrecondition, RuleOneWriter, "published at %q", other)
		}
	}
	if !d.isDirectory(path.Dir(target)) {
		return d.refuse(call, codes.FailedPrecondition, RuleTargetParent, "%q is no directory", path.Dir(target))
	}
	if _, err := d.config.Files.Lstat(target); !errors.Is(err, fs.ErrNotExist) && !at.created {
		return d.refuse(call, codes.FailedPrecondition, RuleTarget, "%q exists", target)
	}
	return d.checkRepeat(call, at)
}

func (d *Driver) checkStaged(call *Call, v *volumeState, r *csipb.NodePublishVolumeRequest) error {
	if !d.stages() || isEphemeral(call.volume, r.GetVolumeContext()) {
		return nil
	}
	if at := v.staged[r.GetStagingTargetPath()]; at == nil || at.known != knownPresent {
		return d.refuse(call, codes.FailedPrecondition, RuleStageFirst, "the volume is not staged at %q", r.GetStagingTargetPath())
	}
	return nil
}

// checkOneVolume checks that no other volume is at a path.
func (d *Driver) checkOneVolume(call *Call, at string) error {
	for id, v := range d.volumes {
		for _, places := range []places{v.staged, v.published} {
			if p := places[at]; id != call.volume && p != nil && p.known != knownAbsent {
				return d.refuse(call, codes.InvalidArgument, RuleOneVolume, "%q is a path of the volume %q", at, id)
			}
		}
	}
	return nil
}

func (d *Driver) isDirectory(name string) bool {
	info, err := d.config.Files.Lstat(name)
	return err == nil && info.IsDir()
}
