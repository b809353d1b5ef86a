package local

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A claimRequest is the directory that a claim and its class request.
type claimRequest struct {
	name         string // of the volume and of the directory
	bytes        int64
	mode         uint32
	root         string // declared; empty: any
	requireQuota bool
}

const defaultClaimMode = 0o777

// parseRequest returns the request of valid options. Its errors are infeasible.
func (p *ProvisioningPlugin) parseRequest(o volume.VolumeOptions) (r claimRequest, err error) {
	if err := checkClaimName(o.PVName); err != nil {
		return r, err
	}
	if err := p.checkClaim(o); err != nil {
		return r, err
	}
	r = claimRequest{name: o.PVName, mode: defaultClaimMode}
	if r.bytes, err = requestedBytes(o.PVC); err != nil {
		return r, err
	}
	for _, name := range slices.Sorted(maps.Keys(o.StorageClass.Parameters)) {
		if err := p.setParameter(&r, name, o.StorageClass.Parameters[name]); err != nil {
			return r, err
		}
	}
	return r, p.checkMountOptions(o)
}

// checkClaimName requires a name as persistent volumes have it: no other entry of a root has one.
func checkClaimName(name string) error {
	at := field.NewPath("options", "pvName")
	if err := volume.ValidatePathComponent(at, name); err != nil {
		return err
	}
	if problems := input.Problems(validation.IsDNS1123Subdomain, name); len(problems) > 0 {
		return volume.Invalid(at, name, problems[0])
	}
	return nil
}

// checkClaim refuses requests that a new directory on this node cannot fulfil.
func (p *ProvisioningPlugin) checkClaim(o volume.VolumeOptions) error {
	if o.PVC == nil {
		return field.Required(field.NewPath("claim"), "the size of a directory is that of a claim")
	}
	at, spec := field.NewPath("claim", "spec"), o.PVC.Spec
	switch {
	case spec.VolumeMode != nil && *spec.VolumeMode != v1.PersistentVolumeFilesystem:
		err := volume.Invalid(at.Child("volumeMode"), string(*spec.VolumeMode), "a directory is no block device")
		return fmt.Errorf("%w: %w", err, volume.ErrNotSupported)
	case spec.Selector != nil:
		return volume.Invalid(at.Child("selector"), metav1.FormatLabelSelector(spec.Selector), "a new volume has no labels")
	case spec.DataSource != nil:
		return volume.Invalid(at.Child("dataSource"), spec.DataSource.Name, "a new directory is empty")
	case spec.DataSourceRef != nil:
		return volume.Invalid(at.Child("dataSourceRef"), spec.DataSourceRef.Name, "a new directory is empty")
	case o.VolumeAttributesClass.Name != "":
		return volume.Invalid(at.Child("volumeAttributesClassName"), o.VolumeAttributesClass.Name, "a directory has no attributes")
	}
	for i, mode := range spec.AccessModes {
		if !slices.Contains(p.GetAccessModes(), mode) {
			return volume.Invalid(at.Child("accessModes").Index(i), string(mode), "not an access mode")
		}
	}
	if n := o.SelectedNode; n != nil && n.Labels[v1.LabelHostname] != "" && n.Labels[v1.LabelHostname] != p.hostname {
		return volume.Invalid(field.NewPath("node", "metadata", "labels").Key(v1.LabelHostname), n.Labels[v1.LabelHostname],
			"the provisioner of the node has the hostname "+input.Quote(p.hostname))
	}
	return nil
}

func requestedBytes(claim *v1.PersistentVolumeClaim) (int64, error) {
	at := field.NewPath("claim", "spec", "resources", "requests", "storage")
	request, ok := claim.Spec.Resources.Requests[v1.ResourceStorage]
	if !ok {
		return 0, field.Required(at, "a volume has a size")
	}
	bytes, err := quantity.Bytes(&request)
	switch {
	case err != nil:
		return 0, volume.Invalid(at, quantity.Text(&request), err.Error())
	case bytes <= 0:
		return 0, volume.Invalid(at, quantity.Text(&request), "must be more than 0")
	}
	return bytes, nil
}

// errNoRoot returns the error of a class whose root receives no volumes.
func errNoRoot(root string) error {
	at := field.NewPath("storageClass", "parameters").Key(RootParameter)
	return volume.Invalid(at, root, "must be one of the provisioner's directories")
}

// setParameter applies a parameter of the class.
func (p *ProvisioningPlugin) setParameter(r *claimRequest, name, value string) error {
	at := field.NewPath("storageClass", "parameters").Key(input.Shorten(name))
	switch name {
	case RootParameter:
		// A former one may have the directory of an earlier call.
		if !slices.ContainsFunc(p.allStores(), func(s *claimStore) bool { return s.root.declared == value }) {
			return errNoRoot(value)
		}
		r.root = value
	case ModeParameter:
		mode, err := strconv.ParseUint(value, 8, 32)
		if err != nil || mode > 0o777 {
			return volume.Invalid(at, value, "must be octal and at most 0777")
		}
		r.mode = uint32(mode)
	case QuotaParameter:
		if value != "prefer" && value != "require" {
			return volume.Invalid(at, value, `must be "prefer" or "require"`)
		}
		r.requireQuota = value == "require"
	default:
		return volume.Invalid(at, value, "unknown; the parameters are "+
			strings.Join([]string{ModeParameter, QuotaParameter, RootParameter}, ", "))
	}
	return nil
}

// checkMountOptions refuses options of the class with which no pod could mount the volume.
func (p *ProvisioningPlugin) checkMountOptions(o volume.VolumeOptions) error {
	spec := specFor(o.PVName, p.stores[0].pathOf(o.PVName), o.StorageClass.MountOptions, false)
	at, err := p.locate(spec.PersistentVolume.Spec.Local.Path)
	if err != nil {
		return err
	}
	ofAnyPod, err := p.volume(o.PVName, "pod")
	if err != nil {
		return err
	}
	m := &mounter{podVolume: ofAnyPod, at: at, spec: spec}
	return m.parseOptions()
}
