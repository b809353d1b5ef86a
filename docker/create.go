package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	errNoVolume = errors.New("no such volume")
	errDeleting = errors.New("the volume is being removed: its data may be gone")
)

// create implements Create.
func (d *driver) create(ctx context.Context, q request) (response, error) {
	o, err := parseOptions(q.Opts)
	if err != nil {
		return response{}, err
	}
	return response{}, d.exclusively(ctx, q.Name, func(have record, _ usage, exists bool) error {
		if exists {
			if have.State == deleting {
				return errDeleting
			}
			if err := compareOptions(have.Options, q.Opts); err != nil || have.State == ready {
				return err
			}
			_, err := d.provision(ctx, have, provisioning{hasBegun: true})
			return err
		}
		rec := record{Name: q.Name, State: creating, Options: maps.Clone(q.Opts), Created: time.Now().UTC(), Storage: d.storageName(q.Name)}
		if o.share != "" {
			return d.createShare(rec, o)
		}
		rec.Bytes, rec.Parameters = cmp.Or(o.bytes, d.config.Size), maps.Clone(d.config.Parameters)
		if rec.Parameters == nil {
			rec.Parameters = map[string]string{}
		}
		maps.Copy(rec.Parameters, o.parameters)
		_, err := d.provision(ctx, rec, provisioning{})
		return err
	})
}

// createShare records a volume that shows storage that exists.
func (d *driver) createShare(rec record, o options) error {
	at := field.NewPath("options").Key(optionShare)
	if d.config.Share == nil {
		return field.Forbidden(at, "the driver has no shares")
	}
	source, err := d.config.Share(o.share)
	if err != nil {
		return err
	}
	mode := v1.PersistentVolumeFilesystem
	rec.State, rec.IsShare = ready, true
	rec.Volume = &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: rec.Storage},
		Spec:       v1.PersistentVolumeSpec{PersistentVolumeSource: source, VolumeMode: &mode, MountOptions: o.mount},
	}
	if err := d.checkVolume(rec); err != nil {
		return err
	}
	return d.store.write(rec)
}

// checkVolume refuses a volume that the plugin cannot mount.
func (d *driver) checkVolume(rec record) error {
	spec, err := rec.spec()
	if err != nil {
		return err
	}
	if options := spec.MountOptions(); len(options) > 0 && !supportsMountOptions(d.config.Plugin) {
		return field.Forbidden(field.NewPath("options").Key(optionMount), "volumes of the driver have no mount options")
	}
	if _, err := d.manager.FindPluginBySpec(spec); err != nil {
		return err
	}
	_, err = d.config.Plugin.NewMounter(spec, d.pod(rec.Name))
	return err
}

func supportsMountOptions(plugin volume.VolumePlugin) bool {
	able, ok := volume.As[volume.MountOptionsVolumePlugin](plugin)
	return ok && able.SupportsMountOption()
}

// A provisioning is the situation in which storage is created.
type provisioning struct {
	hasBegun  bool // an earlier call has written the record, and storage may exist
	forRemove bool // the storage will not be mounted
}

// provision writes the record of a volume, unless an earlier call has, and then creates the storage. The record stays if
// storage may exist.
func (d *driver) provision(ctx context.Context, rec record, p provisioning) (record, error) {
	o, err := rec.parsed()
	switch {
	case err != nil:
		return rec, err
	case d.provisioner == nil:
		return rec, field.Required(field.NewPath("options").Key(optionShare), "the driver creates no storage")
	case len(o.mount) > 0 && !supportsMountOptions(d.config.Plugin):
		return rec, field.Forbidden(field.NewPath("options").Key(optionMount), "volumes of the driver have no mount options")
	}
	provisioner, err := d.provisioner.NewProvisioner(d.volumeOptions(rec, o, p.hasBegun))
	if err != nil {
		if p.hasBegun { // storage may exist
			err = volume.AsUncertain(err)
		}
		return rec, err
	}
	if !p.hasBegun {
		if err := d.store.write(rec); err != nil {
			return rec, err
		}
	}
	pv, err := provisioner.Provision(ctx)
	if err == nil {
		return d.recordStorage(ctx, rec, pv, p)
	}
	if kind := volume.KindOf(err); kind == volume.Final || kind == volume.Transient && !p.hasBegun {
		err = errors.Join(err, d.store.remove(rec.Name))
	}
	return rec, err
}

// volumeOptions returns the request for the storage of a volume. The claim has the volume's own name, which a parameter of
// the plugin may use, such as pathPattern of package nfs.
func (d *driver) volumeOptions(rec record, o options, hasBegun bool) volume.VolumeOptions {
	mode := v1.PersistentVolumeFilesystem
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "docker", Name: rec.Name}}
	claim.Spec.VolumeMode = &mode
	claim.Spec.AccessModes = d.accessModes()
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(rec.Bytes, resource.BinarySI)}
	return volume.VolumeOptions{
		PVName: rec.Storage, PVC: claim, MayExist: hasBegun,
		StorageClass: storagev1.StorageClass{Parameters: maps.Clone(rec.Parameters), MountOptions: o.mount},
	}
}

// accessModes returns the access mode of all volumes: containers of one machine share a volume.
func (d *driver) accessModes() []v1.PersistentVolumeAccessMode {
	able, ok := volume.As[volume.PersistentVolumePlugin](d.config.Plugin)
	if !ok {
		return nil
	}
	modes := able.GetAccessModes()
	for _, mode := range []v1.PersistentVolumeAccessMode{v1.ReadWriteMany, v1.ReadWriteOnce} {
		if slices.Contains(modes, mode) {
			return []v1.PersistentVolumeAccessMode{mode}
		}
	}
	return nil
}

// recordStorage records the created storage. Storage that the plugin cannot mount is deleted again, except with ScopeGlobal:
// another machine may use it.
func (d *driver) recordStorage(ctx context.Context, rec record, pv *v1.PersistentVolume, p provisioning) (record, error) {
	before := rec
	rec.State, rec.Volume = ready, pv.DeepCopy()
	if err := d.checkVolume(rec); err != nil && !p.forRemove {
		if d.config.Scope == ScopeGlobal {
			return before, volume.AsUncertain(err)
		}
		deleter, undo := d.newDeleter(rec)
		if undo == nil {
			undo = deleter.Delete(ctx)
		}
		if undo != nil {
			return before, volume.AsUncertain(fmt.Errorf("%w; delete the storage: %w", err, undo))
		}
		return before, errors.Join(err, d.store.remove(rec.Name))
	}
	if err := d.store.write(rec); err != nil {
		return before, volume.AsUncertain(err)
	}
	return rec, nil
}

// newDeleter returns the deleter of the storage of a volume.
func (d *driver) newDeleter(rec record) (volume.Deleter, error) {
	spec, err := rec.spec()
	if err != nil {
		return nil, err
	}
	if d.deleter == nil {
		return nil, errors.New("the driver deletes no storage any more")
	}
	return d.deleter.NewDeleter(spec)
}
