package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
)

// undoTime is the time for the undo of a failed call.
const undoTime = 5 * time.Second

// mount implements Mount. The volume is recorded as up before it is mounted, and the ID as a user before the answer.
func (d *driver) mount(ctx context.Context, q request) (response, error) {
	if err := checkID(q.ID); err != nil {
		return response{}, err
	}
	err := d.changing(ctx, q, func(have record, use usage, exists bool) error {
		rec, err := d.mountable(ctx, have, exists)
		if err != nil {
			return err
		}
		before, isUser := use.Users[q.ID]
		if !isUser && len(use.Users) >= mostUsers {
			return fmt.Errorf("the volume has %d users", len(use.Users))
		}
		wasUp := use.Up
		if use.Up = true; !wasUp {
			if err := d.store.writeUsage(use); err != nil {
				return err
			}
		}
		identity, err := d.setUp(ctx, rec, wasUp)
		if !wasUp || use.Shown.Device == "" {
			use.Shown = identity
		}
		if err == nil && ctx.Err() != nil { // the caller has gone, and will not unmount
			err = ctxend.Error(ctx)
		}
		if err == nil {
			err = d.store.writeUsage(use.with(q.ID, d.withMount(ctx, use, before)))
		}
		if err != nil {
			return errors.Join(err, d.undo(ctx, rec, use))
		}
		return nil
	})
	if err != nil {
		return response{}, err
	}
	return response{Mountpoint: d.path(q.Name)}, nil
}

// withMount returns a user with one more mount.
func (d *driver) withMount(ctx context.Context, use usage, before user) user {
	is := user{Mounts: 1 + d.earlierMounts(ctx, use, before), Since: before.Since, Caller: d.caller(ctx)}
	if is.Mounts == 1 {
		is.Since = time.Now().UTC()
	}
	return is
}

// earlierMounts returns how many earlier mounts of a user still count. A daemon mounts again, with the same ID,
// while a container runs, such as for docker cp, and then unmounts as often. After a restart, of the daemon or of this
// process, the call can also be the first one of a container that starts again, or one whose answer was lost: then no
// process has the volume among its mounts.
func (d *driver) earlierMounts(ctx context.Context, use usage, before user) int {
	if before.Mounts == 0 || before.Caller == d.caller(ctx) {
		return before.Mounts
	}
	if process, err := d.findUse(ctx, use); err == nil && process == 0 {
		return 0
	}
	return before.Mounts
}

// mountable returns a volume whose storage exists. It completes a creation that was interrupted.
func (d *driver) mountable(ctx context.Context, have record, exists bool) (record, error) {
	switch {
	case !exists:
		return have, errNoVolume
	case have.State == deleting:
		return have, errDeleting
	case have.State == creating:
		return d.provision(ctx, have, provisioning{hasBegun: true})
	}
	return have, nil
}

// undo is takeDownUnused after a failed call, whose context may have ended.
func (d *driver) undo(ctx context.Context, rec record, use usage) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	return d.takeDownUnused(ctx, rec, use)
}

// takeDownUnused takes down a volume without users. The volume stays up, for a later call, if that fails.
func (d *driver) takeDownUnused(ctx context.Context, rec record, use usage) error {
	if len(use.Users) > 0 || !use.Up {
		return nil
	}
	if err := d.takeDown(ctx, rec); err != nil {
		return fmt.Errorf("take the volume down: %w", err)
	}
	return d.store.writeUsage(usage{Name: rec.Name})
}

// unmount implements Unmount: the last mount of the last user takes the volume down, and so does an unknown user of a volume
// that is up without users.
func (d *driver) unmount(ctx context.Context, q request) (response, error) {
	if err := checkID(q.ID); err != nil {
		return response{}, err
	}
	return response{}, d.changing(ctx, q, func(rec record, use usage, exists bool) error {
		if !exists {
			return errNoVolume
		}
		if is, ok := use.Users[q.ID]; ok {
			is.Mounts--
			use = use.with(q.ID, is)
		} else if (len(use.Users) > 0 || !use.Up) && !d.store.isStale(q.Name) {
			return nil
		}
		var err error
		if len(use.Users) == 0 && use.Up {
			if err = d.takeDown(ctx, rec); err == nil {
				use = usage{Name: rec.Name}
			}
		}
		if failed := d.store.writeUsage(use); failed != nil {
			d.store.setUsageInMemory(use) // the daemon does not repeat the call
			err = errors.Join(err, failed)
		}
		return err
	})
}

// path returns the path at which a volume is mounted.
func (d *driver) path(name string) string { return filepath.Join(d.mounts, name) }

// setUp attaches and mounts the volume, as far as the plugin needs it, gives its root directory the requested owner
// and mode once, and returns how mount tables show it. Again: the volume may be up. It is idempotent.
func (d *driver) setUp(ctx context.Context, rec record, again bool) (mountIdentity, error) {
	spec, err := rec.spec()
	if err != nil {
		return mountIdentity{}, err
	}
	o, err := rec.parsed()
	if err != nil {
		return mountIdentity{}, err
	}
	args := volume.MounterArgs{ReadOnly: o.readOnly, IsRemount: again}
	if args.DevicePath, err = d.attach(ctx, rec.Name, spec); err != nil {
		return mountIdentity{}, err
	}
	if args.DeviceMountPath, err = d.mountDevice(ctx, spec, args.DevicePath); err != nil {
		return mountIdentity{}, err
	}
	mounter, err := d.config.Plugin.NewMounter(spec, d.pod(rec.Name))
	if err != nil {
		return mountIdentity{}, err
	}
	if err := mounter.SetUpAt(ctx, d.path(rec.Name), args); err != nil {
		return mountIdentity{}, err
	}
	if !rec.OwnsRoot && o.ownsRoot() {
		if err := ownRoot(ctx, d.path(rec.Name), o); err != nil {
			return mountIdentity{}, fmt.Errorf("the directory of the volume: %w", err)
		}
		rec.OwnsRoot = true
		if err := d.store.write(rec); err != nil {
			return mountIdentity{}, err
		}
	}
	return d.identify(ctx, rec.Name, args.DeviceMountPath)
}

// attach attaches the volume to this node, if its plugin attaches, and returns the path of its device.
func (d *driver) attach(ctx context.Context, name string, spec *volume.Spec) (device string, err error) {
	plugin, ok, err := d.manager.FindAttachablePluginBySpec(ctx, spec)
	if err != nil || !ok {
		return "", err
	}
	attacher, err := plugin.NewAttacher()
	if err != nil {
		return "", err
	}
	if device, err = attacher.Attach(ctx, spec, d.config.Host.NodeName()); err != nil {
		return "", err
	}
	return attacher.WaitForAttach(ctx, spec, device, d.pod(name))
}

// mountDevice mounts the volume once for the node, if its plugin does, and returns the path.
func (d *driver) mountDevice(ctx context.Context, spec *volume.Spec, device string) (path string, err error) {
	plugin, ok, err := d.manager.FindDeviceMountablePluginBySpec(ctx, spec)
	if err != nil || !ok {
		return "", err
	}
	mounter, err := plugin.NewDeviceMounter()
	if err != nil {
		return "", err
	}
	if path, err = mounter.GetDeviceMountPath(spec); err != nil {
		return "", err
	}
	return path, mounter.MountDevice(ctx, spec, path, volume.DeviceMounterArgs{DevicePath: device})
}

// takeDown undoes setUp. It is idempotent.
func (d *driver) takeDown(ctx context.Context, rec record) error {
	unmounter, err := d.paths.NewUnmounterAt(d.path(rec.Name))
	if err != nil {
		return err
	}
	if err := unmounter.TearDown(ctx); err != nil {
		return err
	}
	d.measured.forget(rec.Name)
	spec, err := rec.spec()
	if err != nil {
		return err
	}
	if err := d.unmountDevice(ctx, spec); err != nil {
		return err
	}
	return d.detach(ctx, spec)
}

func (d *driver) unmountDevice(ctx context.Context, spec *volume.Spec) error {
	plugin, ok, err := d.manager.FindDeviceMountablePluginBySpec(ctx, spec)
	if err != nil || !ok {
		return err
	}
	mounter, err := plugin.NewDeviceMounter()
	if err != nil {
		return err
	}
	path, err := mounter.GetDeviceMountPath(spec)
	if err != nil {
		return err
	}
	unmounter, err := plugin.NewDeviceUnmounter()
	if err != nil {
		return err
	}
	return unmounter.UnmountDevice(ctx, path)
}

func (d *driver) detach(ctx context.Context, spec *volume.Spec) error {
	plugin, ok, err := d.manager.FindAttachablePluginBySpec(ctx, spec)
	if err != nil || !ok {
		return err
	}
	name, err := d.config.Plugin.GetVolumeName(spec)
	if err != nil {
		return err
	}
	detacher, err := plugin.NewDetacher()
	if err != nil {
		return err
	}
	return detacher.Detach(ctx, volume.DetachRequest{VolumeName: name, Node: d.config.Host.NodeName(), Spec: spec})
}
