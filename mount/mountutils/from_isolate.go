package mountutils

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount"
	peer "k8s.io/mount-utils"
)

// Isolate implements [mount.Isolator].
func (f *Peer) Isolate(ctx context.Context, target string) error {
	target, err := checkPath("Target", target)
	if err != nil {
		return err
	}
	return publicError("isolate", "", target, f.change(ctx, target, func(c *claim) error {
		return f.isolate(ctx, c, target)
	}))
}

func (f *Peer) isolate(ctx context.Context, c *claim, target string) error {
	return f.runOnMount(c, target, func() error {
		switch p := f.peer.(type) {
		case *peer.FakeMounter: // without propagation
			return nil
		case *Mounter: // which refuses the file system type "none"
			return p.isolate(ctx, target)
		}
		return f.peer.Mount("none", target, "none", []string{"rprivate"})
	})
}

// isolate isolates a target for a Peer over this Mounter.
func (m *Mounter) isolate(ctx context.Context, target string) error {
	isolator, ok := mount.As[mount.Isolator](m.mounter)
	if !ok {
		return fmt.Errorf("isolate: the mounter is no mount.Isolator: %w", errors.ErrUnsupported)
	}
	return isolator.Isolate(ctx, target)
}
