package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/volume"
)

var errInUse = errors.New("the volume is in use")

// remove implements Remove: a volume that is not in use is taken down, and its storage deleted. A volume whose deletion
// has begun is not mounted again before it is deleted. A final error counts as a begun deletion, too: a plugin can meet it
// late. A missing volume is no error.
func (d *driver) remove(ctx context.Context, q request) (response, error) {
	return response{}, d.changing(ctx, q, func(rec record, use usage, exists bool) error {
		if !exists {
			return nil
		}
		rec, err := d.completed(ctx, rec)
		if err != nil || rec.State == creating {
			return err
		}
		if err := d.checkUnused(ctx, use); err != nil {
			return err
		}
		if err := d.takeDown(ctx, rec); err != nil { // also if it is not up: it may be attached since an earlier start
			return err
		}
		if err := d.store.writeUsage(usage{Name: rec.Name}); err != nil { // its file may be stale
			return err
		}
		if rec.IsShare {
			return d.store.remove(rec.Name)
		}
		return d.deleteVolume(ctx, rec)
	})
}

// completed ends the creation of a volume that was interrupted: its storage can be deleted once it exists. If the storage
// cannot be created, the record is gone, and the returned state is creating.
func (d *driver) completed(ctx context.Context, rec record) (record, error) {
	if rec.State != creating {
		return rec, nil
	}
	rec, err := d.provision(ctx, rec, provisioning{hasBegun: true, forRemove: true})
	if _, _, ok, _ := d.store.get(rec.Name); err != nil && !ok {
		return rec, nil // it could not be created
	}
	return rec, err
}

func (d *driver) deleteVolume(ctx context.Context, rec record) error {
	deleter, err := d.newDeleter(rec)
	if err != nil {
		return err
	}
	before := rec
	rec.State = deleting
	if err := d.store.write(rec); err != nil {
		return err
	}
	err = deleter.Delete(ctx)
	switch {
	case err == nil:
		return d.store.remove(rec.Name)
	case before.State == ready && (volume.KindOf(err) == volume.Transient || errors.As(err, new(*volume.IgnoredError))):
		return errors.Join(err, d.store.write(before))
	}
	return err
}

// youth is the time for which a user counts in any case: a container mounts all its volumes before it starts.
var youth = 2 * time.Minute // tests shorten it

// checkUnused refuses a volume that is in use: a user is recorded, and either young or one whose mount some process
// sees. After a restart of the daemon Unmount may never come for a container that it had started before.
func (d *driver) checkUnused(ctx context.Context, use usage) error {
	if len(use.Users) == 0 {
		return nil
	}
	for _, u := range use.Users {
		if age := time.Since(u.Since); age < youth && age > -youth { // the clock may have been set back
			return fmt.Errorf("%w: by %d users, one for %s", errInUse, len(use.Users), age.Round(time.Second))
		}
	}
	process, err := d.findUse(ctx, use)
	switch {
	case err != nil:
		return fmt.Errorf("%w: by %d users (%w)", errInUse, len(use.Users), err)
	case process != 0:
		return fmt.Errorf("%w: by process %d", errInUse, process)
	}
	d.config.Logger.Warn("a volume is removed whose users did not unmount it", "volume", use.Name, "users", len(use.Users))
	return nil
}
