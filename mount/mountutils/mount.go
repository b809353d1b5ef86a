package mountutils

import "time"

// Mount implements Interface of mount-utils. The error is of type *mount.Error,
// or *mount.InputError if the call itself is at fault.
func (m *Mounter) Mount(source, target, fsType string, options []string) error {
	return m.mount(order{source: source, target: target, fsType: fsType, options: options})
}

// MountSensitive implements Interface of mount-utils. What is sensitive is in no
// error, log or command line.
func (m *Mounter) MountSensitive(source, target, fsType string, options, sensitiveOptions []string) error {
	return m.mount(order{source: source, target: target, fsType: fsType, options: options, sensitive: sensitiveOptions})
}

// MountSensitiveWithoutSystemd is MountSensitive: systemd has no part in either.
func (m *Mounter) MountSensitiveWithoutSystemd(source, target, fsType string, options, sensitiveOptions []string) error {
	return m.MountSensitive(source, target, fsType, options, sensitiveOptions)
}

// MountSensitiveWithoutSystemdWithMountFlags is MountSensitive with flags of
// mount(8). Those that speak about its own doings ("--no-mtab", "--internal-only",
// "--verbose") mean nothing here; "--bind", "--rbind", "--read-only" and
// "--make-shared" and its like are options; all others are refused.
func (m *Mounter) MountSensitiveWithoutSystemdWithMountFlags(source, target, fsType string, options, sensitiveOptions, mountFlags []string) error {
	return m.mount(order{
		source: source, target: target, fsType: fsType,
		options: options, sensitive: sensitiveOptions, flags: mountFlags,
	})
}

func (m *Mounter) mount(o order) error {
	req, err := o.request()
	if err != nil {
		return err
	}
	ctx, cancel := m.call(m.timeout)
	defer cancel()
	if req.Target, err = m.links.follow(ctx, m.mounter, req.Target); err != nil {
		return changeError("mount", o.target, err)
	}
	if req.Source, err = m.source(ctx, req); err != nil {
		return changeError("mount", o.target, err)
	}
	req.Stack = m.stack && !req.Remount
	return changeError("mount", o.target, m.mounter.Mount(ctx, req))
}

// Unmount implements Interface of mount-utils. A target that is no mount point is
// no error. A symbolic link is followed.
func (m *Mounter) Unmount(target string) error { return m.unmount(target, m.timeout) }

// UnmountWithForce implements MounterForceUnmounter of mount-utils: Unmount goes
// as far as mount.Config.Unmount lets it anyway. UmountTimeout is added to what
// the call may take.
func (m *Mounter) UnmountWithForce(target string, umountTimeout time.Duration) error {
	timeout := m.timeout
	if timeout > 0 {
		timeout += max(umountTimeout, 0)
	}
	return m.unmount(target, timeout)
}

func (m *Mounter) unmount(target string, timeout time.Duration) error {
	ctx, cancel := m.call(timeout)
	defer cancel()
	resolved, err := m.links.follow(ctx, m.mounter, target)
	if err == nil {
		err = m.mounter.Unmount(ctx, resolved)
	}
	return changeError("unmount", target, err)
}

// CanSafelySkipMountPointCheck implements Interface of mount-utils: an Unmount of
// what is no mount point is no error.
func (m *Mounter) CanSafelySkipMountPointCheck() bool { return true }
