package mountutils

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount"
)

func (f *Peer) mount(c *claim, req mount.Request, o mount.Options) error {
	if req.SourceFile != nil {
		return fmt.Errorf("SourceFile: not supported by mount-utils: %w", errors.ErrUnsupported)
	}
	if len(req.IDMap.UIDs) > 0 || len(req.IDMap.GIDs) > 0 {
		return fmt.Errorf("IDMap: not supported by mount-utils: %w", errors.ErrUnsupported)
	}
	o, err := checkNodes(req, o)
	if err != nil {
		return err
	}
	before, err := f.table()
	if err != nil {
		return err
	}
	existing, mounted := latestMount(before, req.Target)
	switch {
	case req.Remount && !mounted:
		return mount.ErrNotMounted
	case mounted && !req.Remount && !req.Stack:
		return f.checkMounted(before, existing, req, o)
	}
	if err := checkSubmounts(before, req); err != nil {
		return err
	}
	if !c.acquire() {
		return errAbandoned
	}
	return f.mountAndVerify(c, req, o)
}

func (f *Peer) mountAndVerify(c *claim, req mount.Request, o mount.Options) error {
	err := f.peer.MountSensitive(req.Source, req.Target, req.FSType, peerOptions(req, o), secretsOf(req))
	if err == nil {
		err = f.verify(req, o)
	}
	switch {
	case req.Remount, err == nil && c.finish():
		return err
	case err != nil && !errors.Is(err, mount.ErrNotAsRequested):
		return err
	}
	// The mount is not as requested, or too late.
	if undo := f.peer.Unmount(req.Target); undo != nil {
		return mount.AsUncertain(fmt.Errorf("%w (unmounting: %w)", err, undo))
	}
	return err
}

// verify compares the peer's list with the request, by names.
func (f *Peer) verify(req mount.Request, o mount.Options) error {
	table, err := f.table()
	if err != nil {
		return mount.AsUncertain(err)
	}
	existing, mounted := latestMount(table, req.Target)
	switch {
	case !mounted:
		return fmt.Errorf("the target is no mount point: %w", mount.ErrNotAsRequested)
	case existing.Options == nil: // unknown
		return nil
	case existing.Flags&o.Set&^atimeFlags != o.Set&^atimeFlags, existing.Flags&o.Clear&^atimeFlags != 0:
		return fmt.Errorf("%w: the mount is %v", mount.ErrNotAsRequested, existing.Flags)
	}
	return nil
}

// checkNodes requires the paths to exist, to be of matching kinds, and to have no symbolic
// links. It returns the options for the source.
func checkNodes(req mount.Request, o mount.Options) (mount.Options, error) {
	target, err := lstatWithoutLinks(req.Target)
	if err != nil {
		return o, fmt.Errorf("target: %w", err)
	}
	if req.FSType != "" && !target.IsDir() {
		return o, fmt.Errorf("target: a file system requires a directory: %w", syscall.ENOTDIR)
	}
	if req.FSType != "" || req.Remount {
		return o, nil
	}
	source, err := lstatWithoutLinks(req.Source)
	if err != nil {
		return o, fmt.Errorf("source: %w", err)
	}
	if source.Mode()&fs.ModeDevice != 0 {
		if o, err = req.DeviceOptions(o); err != nil {
			return o, err
		}
	}
	if source.IsDir() != target.IsDir() {
		return o, fmt.Errorf("one of source and target is a directory, the other is not: %w", syscall.ENOTDIR)
	}
	return o, nil
}

// lstatWithoutLinks returns the attributes of a path, and refuses symbolic links in it.
func lstatWithoutLinks(p string) (fs.FileInfo, error) {
	link, err := isLink(p)
	if err == nil && link {
		err = syscall.ELOOP
	}
	if err != nil {
		return nil, err
	}
	return os.Lstat(p)
}

// isLink reports whether a path is a symbolic link, and refuses one with a link on the way.
// It does not access a file system mounted existing.
func isLink(p string) (bool, error) {
	dir := path.Dir(path.Clean(p))
	resolved, err := followLinks(dir)
	if err == nil && resolved != filepath.FromSlash(dir) {
		err = syscall.ELOOP
	}
	if err != nil {
		return false, err
	}
	_, err = os.Readlink(p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrPermission) {
		return false, err
	}
	return err == nil, nil
}

// latestMount returns the latest mount at a path.
func latestMount(table mount.Table, at string) (mount.Info, bool) {
	for _, info := range slices.Backward(table) {
		if info.Mountpoint == at {
			return info, true
		}
	}
	return mount.Info{}, false
}

// checkMounted compares an existing mount at the target with the request: nil if it is the
// requested one, as far as the peer reports.
func (f *Peer) checkMounted(table mount.Table, existing mount.Info, req mount.Request, o mount.Options) error {
	var flags mount.Flags
	if req.FSType == "" {
		refs, err := f.peer.GetMountRefs(req.Source)
		if err != nil {
			return err
		}
		if !slices.Contains(refs, req.Target) {
			return mount.ErrMounted
		}
		in, _ := table.Containing(req.Source)
		flags = in.Flags
	} else if existing.FSType != req.FSType || !isSameSource(existing.Source, req.Source) {
		return mount.ErrMounted
	}
	want := o.Apply(flags)
	if existing.Options != nil && (want^existing.Flags)&^atimeFlags != 0 {
		return &mount.FlagsError{Have: existing.Flags, Want: want&^atimeFlags | existing.Flags&atimeFlags}
	}
	return nil
}

// isSameSource reports whether two sources are equal, or links to one device: the peer does not
// report device numbers.
func isSameSource(a, b string) bool {
	const devices = "/dev/"
	if a == b || !strings.HasPrefix(a, devices) || !strings.HasPrefix(b, devices) {
		return a == b
	}
	atA, errA := followLinks(a)
	atB, errB := followLinks(b)
	return errA == nil && errB == nil && atA == atB
}

// checkSubmounts refuses a source with mounts below it, unless the request permits them.
func checkSubmounts(table mount.Table, req mount.Request) error {
	if req.FSType != "" || req.Remount || req.Submounts != mount.RefuseSubmounts {
		return nil
	}
	if below := mountsBelow(table, req.Source); len(below) > 0 {
		return fmt.Errorf("%w: %s", mount.ErrSubmounts, below[0].Mountpoint)
	}
	return nil
}

// peerOptions returns the options of mount(8) for a request.
func peerOptions(req mount.Request, o mount.Options) []string {
	var options []string
	switch {
	case req.Remount:
		// In one string: a separate "bind" makes the peer bind first.
		options = append(options, "bind,remount")
	case req.FSType == "" && req.Submounts == mount.IncludeSubmounts:
		options = append(options, "rbind")
	case req.FSType == "":
		options = append(options, "bind")
	}
	switch {
	case req.Propagation == mount.PropagationPrivate && req.FSType == "" && !req.Remount:
		options = append(options, "rprivate")
	case req.Propagation == mount.PropagationSlave:
		options = append(options, "rslave")
	case req.Propagation == mount.PropagationShared:
		options = append(options, "rshared")
	}
	options = append(options, req.Options...)
	for _, added := range []struct {
		flag mount.Flags
		name string
	}{{mount.NoSUID, "nosuid"}, {mount.NoDev, "nodev"}} {
		if o.Set&added.flag != 0 && !slices.Contains(options, added.name) {
			options = append(options, added.name)
		}
	}
	return options
}

func secretsOf(req mount.Request) []string {
	var secrets []string
	for _, secret := range req.Secrets {
		secrets = append(secrets, secret.Reveal())
	}
	return secrets
}

func (f *Peer) unmount(c *claim, target string) error {
	return f.runOnMount(c, target, func() error { return f.withBusy(target, f.peer.Unmount(target)) })
}

// runOnMount runs work on the mount at the target, if the target is a mount point.
func (f *Peer) runOnMount(c *claim, target string, work func() error) error {
	link, err := isLink(target)
	if err != nil || link {
		return err
	}
	is, err := f.peer.IsMountPoint(target)
	if err != nil || !is {
		return err
	}
	if !c.acquire() {
		return errAbandoned
	}
	return work()
}

func (f *Peer) unmountTree(c *claim, target string) error {
	is, err := f.isMountPoint(target)
	if err != nil || !is {
		return err
	}
	table, err := f.table()
	if err != nil {
		return err
	}
	for _, info := range slices.Backward(mountsBelow(table, target)) {
		if err := f.unmount(c, info.Mountpoint); err != nil {
			return &mount.Error{Op: "unmount", Target: info.Mountpoint, Err: err}
		}
	}
	return f.unmount(c, target)
}

// mountsBelow returns the mounts below a path, in their order.
func mountsBelow(table mount.Table, dir string) []mount.Info {
	below := strings.TrimSuffix(path.Clean(dir), "/") + "/"
	var found []mount.Info
	for _, info := range table {
		if strings.HasPrefix(info.Mountpoint, below) {
			found = append(found, info)
		}
	}
	return found
}
