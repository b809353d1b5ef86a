package podvolume

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount"
)

// mountOrTighten mounts. An existing mount of the request that lacks nosuid or nodev, and has
// no other difference, gets them in place: the kubelet mounts volumes without these flags.
func (p *Mounts) mountOrTighten(ctx context.Context, req mount.Request) error {
	err := p.mounter.Mount(ctx, req)
	var flags *mount.FlagsError
	if !errors.As(err, &flags) {
		return err
	}
	missing, ok := missingFlags(*flags)
	if !ok {
		return err
	}
	if failed := p.mounter.Mount(ctx, mount.Request{Target: req.Target, Options: missing, Remount: true}); failed != nil {
		return fmt.Errorf("%w (adding %q: %w)", err, missing, failed)
	}
	return p.mounter.Mount(ctx, req)
}

// missingFlags returns the options that turn the flags of a mount into the wanted ones. It
// returns false unless these are nosuid and nodev alone: any other flag changes the meaning
// of the volume, and no flag is ever removed.
func missingFlags(flags mount.FlagsError) (options []string, ok bool) {
	missing := flags.Want &^ flags.Have
	if flags.Have&^flags.Want != 0 || missing == 0 || missing&^(mount.NoSUID|mount.NoDev) != 0 {
		return nil, false
	}
	if missing&mount.NoSUID != 0 {
		options = append(options, "nosuid")
	}
	if missing&mount.NoDev != 0 {
		options = append(options, "nodev")
	}
	return options, true
}
