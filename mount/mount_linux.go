package mount

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// A tree is a mount that is complete and that nobody sees yet.
type tree struct {
	fd     int    // its root; while it is open the mount cannot be unmounted
	unique uint64 // the mount's number, which is never used again; 0: unknown
	// attach makes the mount visible on top of what target is the descriptor of.
	attach func(target int) error
	// release undoes what building needed, and the mount if it is not attached.
	release func()
}

func (m *Mounter) mount(ctx context.Context, c *claim, mounting *lease, req Request, o Options) error {
	if req.Remount {
		return m.remount(ctx, c, req, o)
	}
	const tries = 8
	for range tries - 1 {
		// Another process has mounted something in the same instant, which the
		// next try finds; unless that process has unmounted it by then.
		if err := m.mountOnce(ctx, c, mounting, req, o); !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return m.mountOnce(ctx, c, mounting, req, o)
}

func (m *Mounter) mountOnce(ctx context.Context, c *claim, mounting *lease, req Request, o Options) error {
	t, err := m.openTarget(ctx, req.Target)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	defer t.close()
	var src *source
	if req.FSType != "" && !t.dir {
		return fmt.Errorf("target: a file system has a directory for its root: %w", unix.ENOTDIR)
	}
	if req.FSType == "" {
		if src, err = m.openBindSource(ctx, req, t.dir); err != nil {
			return err
		}
		defer src.close()
	}
	if t.mounted && !req.Stack {
		return checkMounted(t, src, req, o)
	}
	if src != nil {
		if err := m.surroundings(ctx, src, req); err != nil {
			return err
		}
	}
	built, err := m.buildInTime(ctx, mounting, t.dir, src, req, o)
	if errors.Is(err, errNotAlone) {
		src.prove, src.staged = false, false
		if err = m.refuseSubmounts(ctx, src, req); err == nil {
			built, err = m.buildInTime(ctx, mounting, t.dir, src, req, o)
		}
	}
	if err != nil {
		return err
	}
	defer built.release()
	if err := verifyTree(built, src); err != nil {
		return err
	}
	return m.attach(ctx, c, built, t, req, o)
}

// buildInTime lets the kernel make a file system, which may wait for a server or a
// device, no longer than ctx allows. What it makes later is given up unseen; the
// target's lease lasts until then. A bind mount waits for nobody.
func (m *Mounter) buildInTime(ctx context.Context, mounting *lease, dir bool, src *source, req Request, o Options) (*tree, error) {
	if src != nil {
		return m.build(dir, src, req, o)
	}
	mounting.share()
	return await(ctx, func() (*tree, error) {
		defer mounting.end()
		return m.buildFileSystem(ctx, req, o)
	}, func(built *tree, err error) {
		if err == nil {
			built.release()
		}
	})
}

// attach makes the tree visible and verifies that it is. It may wait: the kernel
// locks the target's directory, in which a file system may be looking for a name.
func (m *Mounter) attach(ctx context.Context, c *claim, built *tree, t *target, req Request, o Options) error {
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	if c.calm && ctx.Done() != nil && !m.isCalmAt(t.fd) {
		return errNotCalm
	}
	if !c.take() {
		return errAbandoned
	}
	if err := built.attach(t.fd); err != nil {
		return err
	}
	err := verifyAttached(built, t, req, o)
	if err == nil {
		return nil
	}
	if undo := undo(ctx, built, t); undo != nil {
		return fmt.Errorf("%w: %w (undoing it: %w)", ErrUncertain, err, undo)
	}
	return err
}

// build makes the mount with the tier's system calls. If those are refused, as
// containers' system call filters do, it uses the oldest ones.
func (m *Mounter) build(dir bool, src *source, req Request, o Options) (*tree, error) {
	tier, err := m.tier()
	if err != nil {
		return nil, err
	}
	if tier == TierClassic {
		return m.buildStaged(dir, src, req, o)
	}
	if m.config.Tier == TierAuto && src == nil && tooLong(req, o) {
		return m.buildStaged(dir, src, req, o)
	}
	var built *tree
	if src != nil && src.staged {
		built, err = m.buildAlone(tier, dir, src, req, o)
	} else {
		built, err = buildDetached(tier, src, req, o)
	}
	if m.config.Tier == TierAuto && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)) {
		return m.buildStaged(dir, src, req, o)
	}
	return built, err
}

func (m *Mounter) tier() (Tier, error) {
	offered := kernelTier()
	switch want := m.config.Tier; {
	case want == TierAuto:
		return offered, nil
	case want < TierAuto || want > TierTreeAttr:
		return 0, inputError("Config.Tier", fmt.Sprint(int(want)), "no such tier")
	case want > offered:
		return 0, fmt.Errorf("tier %v on this kernel: %w", want, errors.ErrUnsupported)
	default:
		return want, nil
	}
}
