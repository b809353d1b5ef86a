package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/local/internal/projectquota"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type claimProvisioner struct {
	plugin  *ProvisioningPlugin
	request claimRequest
	options volume.VolumeOptions
}

// Provision implements [volume.Provisioner], see [ProvisioningPlugin].
func (c *claimProvisioner) Provision(ctx context.Context) (*v1.PersistentVolume, error) {
	pv, err := c.provision(ctx)
	if err != nil {
		return nil, fmt.Errorf("provision volume %s: %w", input.Quote(c.request.name), err)
	}
	return pv, nil
}

// provision chooses a root and makes the directory without another call of the same name: the two would choose
// different roots while the space changes. Work that a call has left behind has the lock of its root.
func (c *claimProvisioner) provision(ctx context.Context) (*v1.PersistentVolume, error) {
	unlock, err := c.plugin.choosing.Lock(ctx, c.request.name)
	if err != nil {
		return nil, volume.AsTransient(err)
	}
	defer unlock()
	s, err := c.chooseStore(ctx)
	if err != nil {
		return nil, err
	}
	var rec claimRecord
	err = s.exclusively(ctx, c.request.name, func() (err error) {
		rec, err = c.make(s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.describe(s, rec), nil
}

// chooseStore returns the store that has the directory of an earlier call, or the one with the most space whose file
// system is not smaller than the request: the first, unless a later one is roomier.
func (c *claimProvisioner) chooseStore(ctx context.Context) (chosen *claimStore, err error) {
	var room fsusage.Usage // of chosen
	var largest int64
	for _, s := range c.plugin.allStores() {
		var rec *claimRecord
		err := s.exclusively(ctx, c.request.name, func() (err error) {
			rec, err = s.read(c.request.name)
			return err
		})
		if err != nil {
			return nil, volume.AsTransient(err) // this root may have the directory
		}
		if rec != nil {
			return s, nil
		}
	}
	for _, s := range c.plugin.stores {
		if c.request.root != "" && c.request.root != s.root.declared {
			continue
		}
		use, err := fsusage.Stat(ctx, s.root.resolved)
		if err != nil {
			return nil, volume.AsTransient(err)
		}
		largest = max(largest, use.Capacity)
		if use.Capacity >= c.request.bytes && (chosen == nil || isRoomier(use, room, c.request.bytes)) {
			chosen, room = s, use
		}
	}
	isRoot := func(s *claimStore) bool { return s.root.declared == c.request.root }
	if chosen == nil && c.request.root != "" && !slices.ContainsFunc(c.plugin.stores, isRoot) {
		return nil, fmt.Errorf("%w: %w", errNoRoot(c.request.root), volume.ErrInfeasible)
	}
	if chosen == nil {
		size := resource.NewQuantity(c.request.bytes, resource.BinarySI).String()
		err := volume.Invalid(field.NewPath("claim", "spec", "resources", "requests", "storage"), size,
			fmt.Sprintf("exceeds the file systems on this node, of at most %d bytes", largest))
		return nil, c.unfit(err)
	}
	return chosen, nil
}

// isRoomier reports whether a file system has clearly more space available than another one, by a twentieth and by a
// hundredth of its capacity, or alone has space for a volume. The measurements of two directories of one file system
// differ by the bytes that other programs write meanwhile.
func isRoomier(use, than fsusage.Usage, bytes int64) bool {
	if than.Available < bytes && use.Available >= bytes {
		return true
	}
	return use.Available-than.Available > max(than.Available/20, use.Capacity/100)
}

// unfit returns an error of a request that this node cannot fulfil, and another one may.
func (c *claimProvisioner) unfit(err error) error {
	if c.options.SelectedNode != nil {
		return fmt.Errorf("%w: %w", err, volume.ErrReschedule)
	}
	return fmt.Errorf("%w: %w", err, volume.ErrInfeasible)
}

// errForeignEntry reports an entry without a record, which is not the provisioner's.
var errForeignEntry = errors.New("an entry of this name exists that the provisioner has not made")

// make makes the directory, or continues an interrupted call. The caller has locked the name.
func (c *claimProvisioner) make(s *claimStore) (claimRecord, error) {
	have, exists, err := s.look(c.request.name)
	if err != nil {
		return claimRecord{}, err
	}
	if have != nil && have.State == claimReady && exists && have.Bytes == c.request.bytes {
		return *have, nil
	}
	rec := claimRecord{State: claimMaking, Bytes: c.request.bytes, Mode: c.request.mode}
	if lack := projectquota.Check(s.root.resolved); lack != nil {
		rec.Lack = input.Shorten(lack.Error())
		if c.request.requireQuota {
			at := field.NewPath("storageClass", "parameters").Key(QuotaParameter)
			err = c.unfit(volume.Invalid(at, "require", s.root.declared+": "+rec.Lack))
		}
	}
	if err == nil {
		err = c.fill(s, &rec, have)
	}
	if err != nil {
		return claimRecord{}, c.revert(s, rec, have, err)
	}
	return rec, nil
}

// look returns the record of a directory, and whether the directory exists. A directory without a
// record is an error, and so is one that is being deleted.
func (s *claimStore) look(name string) (have *claimRecord, exists bool, err error) {
	if have, err = s.read(name); err == nil {
		exists, err = s.exists(name)
	}
	switch {
	case err != nil:
		return nil, false, volume.AsTransient(err)
	case have == nil && exists:
		return nil, false, fmt.Errorf("%s: %w", s.dir(name), errForeignEntry)
	case have != nil && have.State == claimDeleting:
		return nil, false, volume.AsTransient(fmt.Errorf("%s is being deleted", s.dir(name)))
	}
	return have, exists, nil
}

// fill takes the steps from the record to the finished directory. Each of them may be repeated.
func (c *claimProvisioner) fill(s *claimStore, rec, have *claimRecord) error {
	name, dir := c.request.name, s.dir(c.request.name)
	if rec.Lack == "" {
		unlock, err := s.making.Lock(context.Background(), "")
		if err != nil {
			return err
		}
		defer unlock()
		if rec.Project, err = s.chooseProject(name, have); err != nil {
			return err
		}
	}
	if err := s.write(name, *rec); err != nil {
		return err
	}
	if rec.Project != 0 {
		if err := projectquota.SetLimit(s.root.resolved, rec.Project, rec.Bytes); err != nil {
			return err
		}
	}
	if _, err := safepath.MkdirAll(context.Background(), s.root.resolved, dir, 0o700); err != nil {
		return err
	}
	if rec.Project != 0 {
		if err := projectquota.Assign(dir, rec.Project); err != nil {
			return err
		}
	}
	err := recordstore.Within(s.root.resolved, func(root *os.Root) error {
		return errors.Join(root.Chmod(name, fs.FileMode(rec.Mode)), recordstore.SyncDir(root, "."))
	})
	if err != nil {
		return err
	}
	rec.State = claimReady
	return s.write(name, *rec)
}

// chooseProject returns the project of an earlier call, unless other files have it by now, or a free
// one.
func (s *claimStore) chooseProject(name string, have *claimRecord) (uint32, error) {
	if have != nil && have.Project != 0 {
		of, err := projectquota.ProjectOf(s.dir(name))
		if err == nil && of == have.Project {
			return have.Project, nil
		}
		use, err := projectquota.Query(s.root.resolved, have.Project)
		if err == nil && use.Files == 0 {
			return have.Project, nil
		}
	}
	return projectquota.Choose(s.root.resolved, name)
}

// revert deletes what failed calls have made. It keeps a directory that was ready before: the error is
// then uncertain, as after a failure to delete.
func (c *claimProvisioner) revert(s *claimStore, rec claimRecord, have *claimRecord, err error) error {
	switch {
	case have != nil && have.State == claimReady:
		return volume.AsUncertain(err)
	case have != nil && rec.Project == 0:
		rec.Project = have.Project
	}
	if failed := s.dismantle(context.Background(), c.request.name, rec); failed != nil {
		return volume.AsUncertain(errors.Join(err, failed))
	}
	return err
}

// dismantle removes the empty directory, its quota and its record, in this order. It is idempotent.
func (s *claimStore) dismantle(ctx context.Context, name string, rec claimRecord) error {
	if err := safepath.Rmdir(ctx, s.dir(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if rec.Project != 0 {
		err := projectquota.SetLimit(s.root.resolved, rec.Project, 0)
		if err != nil && !errors.Is(projectquota.Check(s.root.resolved), projectquota.ErrOff) {
			return err
		}
	}
	return s.forget(name)
}

// describe returns the volume of a directory.
func (c *claimProvisioner) describe(s *claimStore, rec claimRecord) *v1.PersistentVolume {
	claim, class := c.options.PVC, c.options.StorageClass
	pv := specFor(c.request.name, s.pathOf(c.request.name), slices.Clone(class.MountOptions), false).PersistentVolume
	if rec.Project != 0 {
		pv.Annotations = map[string]string{QuotaAnnotation: fmt.Sprintf("project %d", rec.Project)}
	} else {
		pv.Annotations = map[string]string{
			QuotaAnnotation:                   "none: " + rec.Lack,
			volume.ProvisioningNoteAnnotation: "no quota enforces the size: " + rec.Lack,
		}
	}
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(rec.Bytes, resource.BinarySI)}
	pv.Spec.AccessModes = slices.Clone(claim.Spec.AccessModes)
	pv.Spec.NodeAffinity = affinityTo(c.plugin.hostname)
	if class.ReclaimPolicy != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	return pv
}
