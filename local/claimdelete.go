package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/volume"
)

// ErrNoClaimRecords is wrapped by the error of a Delete in a claim root without records: no volume was
// ever provisioned there, or its file system is not mounted. The error is transient.
var ErrNoClaimRecords = errors.New("the directory has no records of provisioned volumes: is its file system mounted?")

// ErrClaimMounted is wrapped by the error of a Delete of a directory that is mounted, as by a pod. The
// error is transient.
var ErrClaimMounted = errors.New("the directory is mounted")

type claimDeleter struct {
	plugin *ProvisioningPlugin
	store  *claimStore
	name   string
}

// Delete implements [volume.Deleter], see [ProvisioningPlugin].
func (d *claimDeleter) Delete(ctx context.Context) error {
	err := d.store.exclusively(ctx, d.name, func() error { return d.delete(ctx) })
	if err != nil && !errors.As(err, new(*volume.IgnoredError)) {
		return fmt.Errorf("delete volume %s: %w", input.Quote(d.name), err)
	}
	return err
}

// delete deletes the directory. The caller has locked the name.
func (d *claimDeleter) delete(ctx context.Context) error {
	rec, err := d.store.read(d.name)
	if err != nil {
		return volume.AsTransient(err)
	}
	if rec == nil {
		return d.checkDeleted()
	}
	if err := d.checkUnmounted(ctx); err != nil {
		return volume.AsTransient(err)
	}
	rec.State = claimDeleting
	if err := d.store.write(d.name, *rec); err != nil {
		return volume.AsUncertain(err)
	}
	if err := empty(ctx, d.store.dir(d.name)); err != nil {
		return volume.AsUncertain(err)
	}
	return volume.AsUncertain(d.store.dismantle(ctx, d.name, *rec))
}

// checkUnmounted returns an error if the directory is mounted somewhere.
func (d *claimDeleter) checkUnmounted(ctx context.Context) error {
	exists, err := d.store.exists(d.name)
	if err != nil || !exists {
		return err
	}
	dir := d.store.dir(d.name)
	users, err := d.plugin.config.Mounter.MountRefs(ctx, dir)
	if err == nil && len(users) > 0 {
		err = fmt.Errorf("%s: %w at %s", dir, ErrClaimMounted, input.Quote(users[0]))
	}
	return err
}

// checkDeleted returns nil if a directory without a record does not exist.
func (d *claimDeleter) checkDeleted() error {
	exists, err := d.store.exists(d.name)
	if err == nil && exists {
		return &volume.IgnoredError{Reason: d.store.dir(d.name) + " was not made by " + d.plugin.provisioner}
	}
	if err == nil {
		err = recordstore.Within(d.store.root.resolved, func(root *os.Root) error {
			_, err := root.Stat(claimRecordsDir)
			return err
		})
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: %w", d.store.root.declared, ErrNoClaimRecords)
		}
	}
	return volume.AsTransient(err)
}

// empty deletes all files in a directory, if it exists.
func empty(ctx context.Context, dir string) (err error) {
	root, err := scrub.Open(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if _, err := root.Empty(ctx, scrub.Options{}); err != nil {
		return err
	}
	// Scrub keeps an empty lost+found, as the root of a file system needs it.
	if err := safepath.Rmdir(ctx, path.Join(dir, "lost+found")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
