package mount

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A tree is a mount that is complete and that nobody sees yet.
type tree struct {
	fd int // its root; while it is open the mount cannot be unmounted
	// attach makes the mount visible on top of what target is the descriptor of.
	attach func(target int) error
	// release undoes what building needed, and the mount if it is not attached.
	release func()
}

func (m *Mounter) mount(c *claim, req Request, o Options) error {
	const tries = 8
	for range tries - 1 {
		// Another process has mounted something in the same instant, which the
		// next try finds; unless that process has unmounted it by then.
		if err := m.mountOnce(c, req, o); !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return m.mountOnce(c, req, o)
}

func (m *Mounter) mountOnce(c *claim, req Request, o Options) error {
	t, err := openTarget(req.Target)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	defer t.close()
	var src *source
	if req.FSType != "" && !t.dir {
		return fmt.Errorf("target: a file system has a directory for its root: %w", unix.ENOTDIR)
	}
	if req.FSType == "" {
		if src, err = openBindSource(req.Source, t.dir); err != nil {
			return err
		}
		defer src.close()
	}
	if t.mounted && !req.Stack {
		return checkMounted(t, src, req, o)
	}
	built, err := m.build(t, src, req, o)
	if err != nil {
		return err
	}
	defer built.release()
	if err := verifyTree(built, src); err != nil {
		return err
	}
	return attach(c, built, t, req, o)
}

// attach makes the tree visible and verifies that it is.
func attach(c *claim, built *tree, t *target, req Request, o Options) error {
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
	if undo := unmountTree(built); undo != nil {
		return fmt.Errorf("%w: %w (undoing it: %w)", ErrUncertain, err, undo)
	}
	return err
}

// unmountTree unmounts an attached tree, by its descriptor: that mount, and none
// that has come to its place.
func unmountTree(built *tree) error {
	err := unix.Unmount(procFD(built.fd), unix.MNT_DETACH)
	if errors.Is(err, unix.EINVAL) {
		return nil // it is not attached any more
	}
	return err
}

// build makes the mount with the tier's system calls. If those are refused, as
// containers' system call filters do, it uses the oldest ones.
func (m *Mounter) build(t *target, src *source, req Request, o Options) (*tree, error) {
	tier, err := m.tier()
	if err != nil {
		return nil, err
	}
	if tier == TierClassic {
		return m.buildStaged(t, src, req, o)
	}
	built, err := buildDetached(tier, src, req, o)
	if m.config.Tier == TierAuto && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)) {
		return m.buildStaged(t, src, req, o)
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
