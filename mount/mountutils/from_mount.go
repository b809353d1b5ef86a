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
		return fmt.Errorf("a source that is open: %w", errors.ErrUnsupported)
	}
	if len(req.IDMap.UIDs) > 0 || len(req.IDMap.GIDs) > 0 {
		return fmt.Errorf("ID maps: %w", errors.ErrUnsupported)
	}
	if err := checkNodes(req); err != nil {
		return err
	}
	before, err := f.table()
	if err != nil {
		return err
	}
	there, mounted := topAt(before, req.Target)
	switch {
	case req.Remount && !mounted:
		return mount.ErrNotMounted
	case mounted && !req.Remount && !req.Stack:
		return f.checkMounted(before, there, req, o)
	}
	if err := checkSubmounts(before, req); err != nil {
		return err
	}
	if !c.take() {
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
	// It is not as requested, or too late.
	if undo := f.peer.Unmount(req.Target); undo != nil {
		return fmt.Errorf("%w: %w (undoing it: %w)", mount.ErrUncertain, err, undo)
	}
	return err
}

// verify compares what the peer lists with what was asked for by name.
func (f *Peer) verify(req mount.Request, o mount.Options) error {
	table, err := f.table()
	if err != nil {
		return fmt.Errorf("%w: %w", mount.ErrUncertain, err)
	}
	there, mounted := topAt(table, req.Target)
	switch {
	case !mounted:
		return fmt.Errorf("the target is no mount point: %w", mount.ErrNotAsRequested)
	case there.Options == nil: // it is not told
		return nil
	case there.Flags&o.Set&^atimeFlags != o.Set&^atimeFlags, there.Flags&o.Clear&^atimeFlags != 0:
		return fmt.Errorf("%w: it is %v", mount.ErrNotAsRequested, there.Flags)
	}
	return nil
}

// checkNodes makes sure of what the paths lead to, and that they do so without
// symbolic links.
func checkNodes(req mount.Request) error {
	target, err := look(req.Target)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	if req.FSType != "" && !target.IsDir() {
		return fmt.Errorf("target: a file system has a directory for its root: %w", syscall.ENOTDIR)
	}
	if req.FSType != "" || req.Remount {
		return nil
	}
	source, err := look(req.Source)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	if source.IsDir() != target.IsDir() {
		return fmt.Errorf("one of source and target is a directory, the other is not: %w", syscall.ENOTDIR)
	}
	return nil
}

// look refuses a path with a symbolic link in it.
func look(p string) (fs.FileInfo, error) {
	link, err := isLink(p)
	if err == nil && link {
		err = syscall.ELOOP
	}
	if err != nil {
		return nil, err
	}
	return os.Lstat(p)
}

// isLink reports whether a path is a symbolic link, and refuses one with a link
// on the way. It asks nothing of a file system that is mounted there.
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

// topAt returns the mount at a path that was made last.
func topAt(table mount.Table, at string) (mount.Info, bool) {
	for _, info := range slices.Backward(table) {
		if info.Mountpoint == at {
			return info, true
		}
	}
	return mount.Info{}, false
}

// checkMounted decides what a target means that is a mount point already: nil if
// it is what the request asks for, as far as the peer tells.
func (f *Peer) checkMounted(table mount.Table, there mount.Info, req mount.Request, o mount.Options) error {
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
	} else if there.FSType != req.FSType || there.Source != req.Source {
		return mount.ErrMounted
	}
	want := o.Apply(flags)
	if there.Options != nil && (want^there.Flags)&^atimeFlags != 0 {
		return fmt.Errorf("%w: it is %v, not %v", mount.ErrMounted, there.Flags, want)
	}
	return nil
}

// checkSubmounts refuses a source with mounts below it, if the request does.
func checkSubmounts(table mount.Table, req mount.Request) error {
	if req.FSType != "" || req.Remount || req.Submounts != mount.RefuseSubmounts {
		return nil
	}
	if below := inside(table, req.Source); len(below) > 0 {
		return fmt.Errorf("%w: %s", mount.ErrSubmounts, below[0].Mountpoint)
	}
	return nil
}

// peerOptions spells a request as mount(8) has it.
func peerOptions(req mount.Request, o mount.Options) []string {
	var options []string
	switch {
	case req.Remount:
		// In one: from "bind" by itself the peer concludes that it is to bind first.
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
	return f.onMount(c, target, func() error { return f.inUse(target, f.peer.Unmount(target)) })
}

// onMount does work that changes what is mounted at the target, if anything is.
func (f *Peer) onMount(c *claim, target string, work func() error) error {
	link, err := isLink(target)
	if err != nil || link {
		return err
	}
	is, err := f.peer.IsMountPoint(target)
	if err != nil || !is {
		return err
	}
	if !c.take() {
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
	for _, info := range slices.Backward(inside(table, target)) {
		if err := f.unmount(c, info.Mountpoint); err != nil {
			return &mount.Error{Op: "unmount", Target: info.Mountpoint, Err: err}
		}
	}
	return f.unmount(c, target)
}

// inside returns the mounts below a path, in their order.
func inside(table mount.Table, dir string) []mount.Info {
	below := strings.TrimSuffix(path.Clean(dir), "/") + "/"
	var found []mount.Info
	for _, info := range table {
		if strings.HasPrefix(info.Mountpoint, below) {
			found = append(found, info)
		}
	}
	return found
}
