package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultSize is the size of a volume whose request has none, in bytes.
const DefaultSize = 1 << 30

// reservedParameters is the beginning of the parameters that the provisioner of a cluster adds, and which
// are not of the class.
const reservedParameters = "csi.storage.k8s.io/"

// A createRequest is a checked CreateVolumeRequest.
type createRequest struct {
	name            string // as requested
	pvName          string
	required, limit int64
	usages          []usage
	parameters      map[string]string // of the class
	claim           metav1.ObjectMeta
	wanted          []map[string]string
}

// CreateVolume implements the controller service.
func (d *driver) CreateVolume(ctx context.Context, req *csipb.CreateVolumeRequest) (*csipb.CreateVolumeResponse, error) {
	if d.provisioner == nil {
		return d.UnimplementedControllerServer.CreateVolume(ctx, req)
	}
	r, err := d.parseCreate(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := &csipb.CreateVolumeResponse{}
	return resp, d.exclusively(ctx, "create", volumeID{text: r.name, name: r.pvName}, func() error {
		rec, err := d.volumes.read(r.pvName)
		if err != nil {
			return err
		}
		if rec != nil {
			if err := r.checkExisting(rec); err != nil {
				return err
			}
		}
		if rec == nil || rec.State == stateCreating {
			if rec, err = d.provision(ctx, r, rec); err != nil {
				return err
			}
		}
		resp.Volume = rec.message()
		return nil
	})
}

// parseCreate checks a request. Its errors have the code INVALID_ARGUMENT or OUT_OF_RANGE.
func (d *driver) parseCreate(ctx context.Context, req *csipb.CreateVolumeRequest) (r createRequest, err error) {
	if err := requireText(field.NewPath("name"), req.GetName(), longestField); err != nil {
		return r, err
	}
	r.name, r.pvName = req.GetName(), volumeName(req.GetName())
	if r.usages, err = d.requireUsages(req.GetVolumeCapabilities()); err != nil {
		return r, err
	}
	if r.usages[0].block && !d.provisionsBlock(ctx) {
		return r, field.Invalid(field.NewPath("volumeCapabilities").Index(0), "block", "the driver creates no raw devices")
	}
	if r.required, r.limit, err = requireRange(req.GetCapacityRange(), DefaultSize); err != nil {
		return r, err
	}
	switch {
	case req.GetVolumeContentSource() != nil:
		return r, field.Forbidden(field.NewPath("volumeContentSource"), "new volumes are empty")
	case len(req.GetMutableParameters()) > 0:
		return r, field.Forbidden(field.NewPath("mutableParameters"), "the driver does not declare MODIFY_VOLUME")
	}
	if err := checkMap(field.NewPath("parameters"), req.GetParameters()); err != nil {
		return r, err
	}
	r.parameters, r.claim = classParameters(req.GetParameters())
	r.wanted, err = d.wanted(req.GetAccessibilityRequirements())
	return r, err
}

func (d *driver) provisionsBlock(ctx context.Context) bool {
	able, ok := volume.As[volume.BlockProvisioner](d.config.Plugin)
	return ok && able.SupportsBlock(ctx)
}

// classParameters separates the parameters of a class from those that describe the claim.
func classParameters(written map[string]string) (parameters map[string]string, claim metav1.ObjectMeta) {
	for key, value := range written {
		switch {
		case key == reservedParameters+"pvc/name":
			claim.Name = value
		case key == reservedParameters+"pvc/namespace":
			claim.Namespace = value
		case !strings.HasPrefix(key, reservedParameters):
			if parameters == nil {
				parameters = map[string]string{}
			}
			parameters[key] = value
		}
	}
	return parameters, claim
}

// checkExisting compares the request with the volume of its name.
func (r *createRequest) checkExisting(rec *volumeRecord) error {
	if rec.State == stateDeleting {
		return codedf(codes.Aborted, "volume %s is being deleted", input.Quote(r.name))
	}
	capacity := rec.Bytes
	if rec.State == stateReady {
		capacity = rec.Capacity
	}
	lacksMode := func(u usage) bool { return !slices.Contains(rec.Modes, u.mode) }
	differs := ""
	switch first := r.usages[0]; {
	case rec.RequestedName != r.name:
		differs = "name"
	case capacity != 0 && (capacity < r.required || r.limit > 0 && capacity > r.limit):
		differs = "capacity"
	case first.block != rec.Usage.Block || first.fsType != rec.Usage.FSType:
		differs = "access type"
	case slices.ContainsFunc(r.usages, lacksMode):
		differs = "access mode"
	case !maps.Equal(r.parameters, rec.Parameters):
		differs = "parameters"
	case rec.State == stateReady && !isReached(rec.Topology, r.wanted):
		differs = "topology"
	default:
		return nil
	}
	return codedf(codes.AlreadyExists, "volume %s exists with another %s", input.Quote(r.name), differs)
}

// record returns the record of a volume that is about to be created.
func (r *createRequest) record() volumeRecord {
	rec := volumeRecord{State: stateCreating, RequestedName: r.name, Bytes: r.required, Parameters: r.parameters, Usage: r.usages[0].record()}
	for _, u := range r.usages {
		rec.Modes = append(rec.Modes, u.mode)
	}
	return rec
}

// provision creates the storage in the first topology in which the plugin can. An earlier call may have
// begun: have is its record, or nil. After an uncertain error the next call continues in the same
// topology.
func (d *driver) provision(ctx context.Context, r createRequest, have *volumeRecord) (*volumeRecord, error) {
	attempts := r.wanted
	switch {
	case have != nil:
		attempts = append([]map[string]string{have.Segments}, attempts...)
	case len(attempts) == 0:
		attempts = []map[string]string{nil}
	}
	var failed error
	for _, segments := range attempts {
		rec, err := d.attempt(ctx, r, have, segments)
		if err == nil || !isElsewhere(err) {
			return rec, err
		}
		have, failed = nil, err
	}
	if len(r.wanted) > 0 {
		return nil, coded(codes.ResourceExhausted, failed)
	}
	return nil, failed
}

// isElsewhere reports whether the plugin has created nothing, and may create the storage in another topology.
func isElsewhere(err error) bool {
	return volume.KindOf(err) == volume.Final && (errors.Is(err, volume.ErrReschedule) || errors.As(err, new(*volume.IgnoredError)))
}

// attempt creates the storage in one topology, and records it before. The record stays if storage may exist: after
// an uncertain error, of this or of the earlier call.
func (d *driver) attempt(ctx context.Context, r createRequest, have *volumeRecord, segments map[string]string) (*volumeRecord, error) {
	rec := r.record()
	if have != nil {
		rec = *have
	}
	rec.Segments = segments
	if err := d.volumes.write(r.pvName, rec); err != nil {
		return nil, err
	}
	pv, err := d.provisionIn(ctx, r, rec)
	if err == nil {
		return d.store(ctx, r, rec, pv)
	}
	if kind := volume.KindOf(err); kind == volume.Final || kind == volume.Transient && have == nil {
		err = errors.Join(err, d.volumes.remove(r.pvName))
	}
	return nil, err
}

// provisionIn creates the storage in one topology, or where the plugin chooses.
func (d *driver) provisionIn(ctx context.Context, r createRequest, rec volumeRecord) (*v1.PersistentVolume, error) {
	mode, first := v1.PersistentVolumeFilesystem, r.usages[0]
	if first.block {
		mode = v1.PersistentVolumeBlock
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: r.claim}
	claim.Spec.VolumeMode = &mode
	for _, u := range r.usages {
		if pv := pvModes[u.mode]; !slices.Contains(claim.Spec.AccessModes, pv) {
			claim.Spec.AccessModes = append(claim.Spec.AccessModes, pv)
		}
	}
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(rec.Bytes, resource.BinarySI)}
	provisioner, err := d.provisioner.NewProvisioner(volume.VolumeOptions{
		PVName: r.pvName, PVC: claim, SelectedNode: d.nodeIn(rec.Segments),
		StorageClass: storagev1.StorageClass{Parameters: maps.Clone(rec.Parameters), MountOptions: slices.Clone(first.flags)},
	})
	if err != nil {
		return nil, err
	}
	return provisioner.Provision(ctx)
}

// store records the created volume. A volume that cannot be described is deleted again.
func (d *driver) store(ctx context.Context, r createRequest, rec volumeRecord, pv *v1.PersistentVolume) (*volumeRecord, error) {
	var err error
	if rec.Source, err = encodeSource(pv.Spec.PersistentVolumeSource); err == nil {
		rec.Topology, err = d.accessible(pv)
	}
	if err == nil {
		rec.Capacity, err = capacityOf(pv)
	}
	if err == nil && r.limit > 0 && rec.Capacity > r.limit {
		err = codedf(codes.OutOfRange, "the volume has %d bytes, and the limit is %d", rec.Capacity, r.limit)
	}
	if err != nil {
		if undo := d.deleteStorage(ctx, pv); undo != nil {
			return nil, volume.AsUncertain(fmt.Errorf("%w; delete the storage: %w", err, undo))
		}
		return nil, errors.Join(err, d.volumes.remove(r.pvName))
	}
	rec.State, rec.Volume, rec.ID = stateReady, pv.DeepCopy(), newVolumeID(r.pvName, rec.Source).text
	rec.Volume.Spec.MountOptions = nil // they may be secret, and Delete mounts nothing
	if err := d.volumes.write(r.pvName, rec); err != nil {
		return nil, volume.AsUncertain(err)
	}
	return &rec, nil
}

// capacityOf returns the capacity of a volume in bytes; 0: not known.
func capacityOf(pv *v1.PersistentVolume) (int64, error) {
	size, ok := pv.Spec.Capacity[v1.ResourceStorage]
	if !ok {
		return 0, nil
	}
	bytes, err := quantity.Bytes(&size)
	if err == nil && bytes < 0 {
		err = fmt.Errorf("capacity of volume %s: %d bytes", pv.Name, bytes)
	}
	return bytes, err
}

// message returns the volume for a response.
func (r *volumeRecord) message() *csipb.Volume {
	return &csipb.Volume{
		CapacityBytes: r.Capacity, VolumeId: r.ID, VolumeContext: newContext(r.Source), AccessibleTopology: topologyMessages(r.Topology),
	}
}
