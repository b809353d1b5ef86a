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
	return finish("isolate", "", target, f.change(ctx, target, func(c *claim) error {
		return f.isolate(ctx, c, target)
	}))
}

func (f *Peer) isolate(ctx context.Context, c *claim, target string) error {
	return f.onMount(c, target, func() error {
		switch p := f.peer.(type) {
		case *peer.FakeMounter: // nothing spreads in it
			return nil
		case *Mounter: // which mounts file systems alone that there are
			return p.isolate(ctx, target)
		}
		return f.peer.Mount("none", target, "none", []string{"rprivate"})
	})
}

// isolate is for a Peer that mounts with this Mounter.
func (m *Mounter) isolate(ctx context.Context, target string) error {
	isolator, ok := m.mounter.(mount.Isolator)
	if !ok {
		return fmt.Errorf("making mounts private: %w", errors.ErrUnsupported)
	}
	return isolator.Isolate(ctx, target)
}
