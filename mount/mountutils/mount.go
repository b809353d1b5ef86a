package mountutils

import "time"

// Mount implements Interface of mount-utils. The error is of type *mount.Error,
// or *mount.InputError if the call itself is at fault.
func (m *Mounter) Mount(source, target, fsType string, options []string) error {
	return m.mount(mountArgs{source: source, target: target, fsType: fsType, options: options})
}

// MountSensitive implements Interface of mount-utils. sensitiveOptions appear in no error,
// log or command line.
func (m *Mounter) MountSensitive(source, target, fsType string, options, sensitiveOptions []string) error {
	return m.mount(mountArgs{source: source, target: target, fsType: fsType, options: options, sensitive: sensitiveOptions})
}

// MountSensitiveWithoutSystemd is MountSensitive: systemd has no part in either.
func (m *Mounter) MountSensitiveWithoutSystemd(source, target, fsType string, options, sensitiveOptions []string) error {
	return m.MountSensitive(source, target, fsType, options, sensitiveOptions)
}

// MountSensitiveWithoutSystemdWithMountFlags is MountSensitive with flags of mount(8). Flags
// about the program's own behaviour ("--no-mtab", "--internal-only", "--verbose") have no
// effect; "--bind", "--rbind", "--read-only" and "--make-shared" and the like are options;
// all others are refused.
func (m *Mounter) MountSensitiveWithoutSystemdWithMountFlags(source, target, fsType string, options, sensitiveOptions, mountFlags []string) error {
	return m.mount(mountArgs{
		source: source, target: target, fsType: fsType,
		options: options, sensitive: sensitiveOptions, flags: mountFlags,
	})
}

func (m *Mounter) mount(o mountArgs) error {
	req, err := o.request()
	if err != nil {
		return err
	}
	ctx, cancel := m.callContext(m.timeout)
	defer cancel()
	if req.Target, err = m.links.follow(ctx, m.kernel(), req.Target); err != nil {
		return changeError("mount", o.target, err)
	}
	if req.Source, err = m.source(ctx, req); err != nil {
		return changeError("mount", o.target, err)
	}
	if m.inheritPropagation && !req.Remount && !o.propagates() {
		if req.Propagation, err = m.propagation(ctx, req); err != nil {
			return changeError("mount", o.target, err)
		}
	}
	req.DeviceFile = req.DeviceFile && !m.noDeviceFiles
	req.Stack = m.stack && !req.Remount
	return changeError("mount", o.target, m.kernel().Mount(ctx, req))
}

// Unmount implements Interface of mount-utils. A target that is no mount point is
// no error. A symbolic link is followed.
func (m *Mounter) Unmount(target string) error { return m.unmount(target, m.timeout) }

// UnmountWithForce implements MounterForceUnmounter of mount-utils: Unmount itself escalates
// as far as mount.Config.Unmount permits. UmountTimeout extends the call's time limit.
func (m *Mounter) UnmountWithForce(target string, umountTimeout time.Duration) error {
	timeout := m.timeout
	if timeout > 0 {
		timeout += max(umountTimeout, 0)
	}
	return m.unmount(target, timeout)
}

func (m *Mounter) unmount(target string, timeout time.Duration) error {
	ctx, cancel := m.callContext(timeout)
	defer cancel()
	resolved, err := m.links.follow(ctx, m.kernel(), target)
	if err == nil {
		err = m.kernel().Unmount(ctx, resolved)
	}
	return changeError("unmount", target, err)
}

// CanSafelySkipMountPointCheck implements Interface of mount-utils. It returns true: Unmount
// of a path that is no mount point returns nil.
func (m *Mounter) CanSafelySkipMountPointCheck() bool { return true }
