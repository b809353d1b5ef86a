package nfs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkRequest refuses a claim that a directory cannot fulfil.
func checkRequest(o volume.VolumeOptions) error {
	if name := o.VolumeAttributesClass.Name; name != "" {
		return volume.Invalid(field.NewPath("volumeAttributesClass"), name, "NFS volumes have no attributes")
	}
	if o.PVC == nil {
		return nil
	}
	spec, at := o.PVC.Spec, field.NewPath("claim", "spec")
	switch {
	case spec.Selector != nil:
		return volume.Invalid(at.Child("selector"), metav1.FormatLabelSelector(spec.Selector), "a new volume has no labels to select")
	case spec.DataSource != nil:
		return volume.Invalid(at.Child("dataSource"), spec.DataSource.Kind, "NFS volumes are provisioned empty")
	case spec.DataSourceRef != nil:
		return volume.Invalid(at.Child("dataSourceRef"), spec.DataSourceRef.Kind, "NFS volumes are provisioned empty")
	}
	size := spec.Resources.Requests[v1.ResourceStorage]
	if err := quantity.Check(&size); err != nil {
		return volume.Invalid(requestField(), quantity.Text(&size), err.Error())
	}
	if size.Sign() <= 0 {
		return volume.Invalid(requestField(), size.String(), "must be at least 1 byte")
	}
	return nil
}

func requestField() *field.Path {
	return field.NewPath("claim", "spec", "resources", "requests").Key(string(v1.ResourceStorage))
}

// A provisioner implements [volume.Provisioner] for a directory.
type provisioner struct {
	access     *exportAccess
	options    volume.VolumeOptions
	parameters parameters
	invalid    error  // of options that cannot be fulfilled; then parameters and dir are unset
	dir        string // relative to the export
	given      int    // of directoryOf
}

// Provision creates the directory with the mode and the owner of the class, and returns the volume.
// A request larger than the file system of the export is infeasible, unless the class has overcommit; smaller ones are
// not enforced.
//
// A directory that exists already is an error, unless it was created for this volume, or for a
// volume of the same pathPattern by a class that retains directories: these share it. A class with adopt also takes one
// without a record. A directory that is not empty keeps its mode and its owner.
//
// If an earlier call for the volume began, Provision continues with the directory of that call, also
// if the claim or the class give another path by now. If they are invalid by now, the error is
// infeasible, and the directory is removed; if it is not empty, the error is uncertain.
func (p *provisioner) Provision(ctx context.Context) (_ *v1.PersistentVolume, err error) {
	defer brief.Shorten(&err)
	dir, name := p.dir, ""
	err = p.access.within(ctx, p.options.PVName, func(ctx context.Context, t *exportTree) error {
		begun, err := t.begun(p.options.PVName)
		if err != nil {
			return volume.AsUncertain(err)
		}
		if p.invalid != nil {
			return p.refuse(t, begun)
		}
		d := p.directory()
		if begun != nil {
			d.rel, d.owner = begun.rel, begun.owner
			dir = d.rel
		} else if err := p.checkSize(t); err != nil {
			return err
		}
		if err := t.create(ctx, d, begun != nil); err != nil {
			return err
		}
		name, err = t.name(begun == nil)
		return volume.AsUncertain(err)
	})
	switch {
	case err == nil:
		pv := p.describe(dir)
		if name != "" {
			pv.Annotations[volume.StorageAnnotation] = name
		}
		return pv, nil
	case p.invalid == nil:
		return nil, fmt.Errorf("provision %s in %s: %w", p.dir, p.access.export, err)
	case errors.Is(err, p.invalid):
		return nil, err
	}
	return nil, fmt.Errorf("%w; the request is refused: %s", err, p.invalid.Error())
}

// refuse returns the error of invalid options, after it has removed the directory that an earlier call
// began.
func (p *provisioner) refuse(t *exportTree, begun *directory) error {
	if begun == nil {
		return p.invalid
	}
	if err := t.revert(*begun); err != nil {
		return volume.AsUncertain(fmt.Errorf("remove %s of an earlier call: %w", begun.rel, err))
	}
	return p.invalid
}

// checkSize refuses a request that is larger than the export's file system.
func (p *provisioner) checkSize(t *exportTree) error {
	if p.options.PVC == nil || p.parameters.overcommit {
		return nil
	}
	size, err := t.size()
	if err != nil {
		return volume.AsUncertain(err)
	}
	request := p.options.PVC.Spec.Resources.Requests[v1.ResourceStorage]
	if size > 0 && request.CmpInt64(size) > 0 {
		return infeasible(volume.Invalid(requestField(), request.String(), fmt.Sprintf("the file system of the export has %d bytes", size)))
	}
	return nil
}

func (p *provisioner) directory() directory {
	owner := p.options.PVName
	if p.parameters.pattern != "" && p.parameters.disposal == retaining {
		owner = sharedOwner(p.parameters.pattern)
	}
	return directory{
		volume: p.options.PVName, rel: p.dir, mode: p.parameters.mode, uid: p.parameters.uid, gid: p.parameters.gid, owner: owner, given: p.given, adopts: p.parameters.adopt,
	}
}

// describe returns the volume with a directory.
func (p *provisioner) describe(dir string) *v1.PersistentVolume {
	mode, class := v1.PersistentVolumeFilesystem, p.options.StorageClass
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        p.options.PVName,
			Annotations: map[string]string{OnDeleteAnnotation: string(p.parameters.disposal)},
		},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{
				NFS: &v1.NFSVolumeSource{Server: p.access.export.server, Path: path.Join(p.access.export.path, dir)},
			},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			VolumeMode:                    &mode,
			MountOptions:                  slices.Clone(class.MountOptions),
		},
	}
	if class.ReclaimPolicy != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	if claim := p.options.PVC; claim != nil {
		pv.Spec.AccessModes = slices.Clone(claim.Spec.AccessModes)
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]}
	}
	return pv
}
