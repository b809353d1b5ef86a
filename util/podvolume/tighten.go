package podvolume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/mount"
)

// mountOrTighten mounts. An existing mount of the request that lacks nosuid or nodev, and has no other
// difference but ro, gets them in place: the kubelet mounts volumes without these flags. A mount that
// lacks ro alone may be one of this module, which was set up writable: it stays so.
func (p *Mounts) mountOrTighten(ctx context.Context, req mount.Request) error {
	err := p.mounter.Mount(ctx, req)
	var flags *mount.FlagsError
	if !errors.As(err, &flags) {
		return err
	}
	missing, ok := missingFlags(*flags)
	if !ok || slices.Equal(missing, []string{"ro"}) {
		return err
	}
	if failed := p.mounter.Mount(ctx, mount.Request{Target: req.Target, Options: missing, Remount: true}); failed != nil {
		return fmt.Errorf("%w (adding %q: %w)", err, missing, failed)
	}
	return p.mounter.Mount(ctx, req)
}

// missingFlags returns the options that turn the flags of a mount into the wanted ones. It returns
// false unless these are nosuid, nodev and ro alone: any other flag changes the meaning of the
// volume, and no flag is ever removed.
//
// A kubelet mounts a volume writable that all containers of the pod mount read-only: only the mounts
// of the containers are read-only.
func missingFlags(flags mount.FlagsError) (options []string, ok bool) {
	missing := flags.Want &^ flags.Have
	if flags.Have&^flags.Want != 0 || missing == 0 || missing&^(mount.NoSUID|mount.NoDev|mount.ReadOnly) != 0 {
		return nil, false
	}
	if missing&mount.NoSUID != 0 {
		options = append(options, "nosuid")
	}
	if missing&mount.NoDev != 0 {
		options = append(options, "nodev")
	}
	if missing&mount.ReadOnly != 0 {
		options = append(options, "ro")
	}
	return options, true
}
