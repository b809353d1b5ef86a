package table

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/util/ctxend"
)

// A mountReader reads the mounts of one answer. Reads fail after the end of their context.
type mountReader struct{ *record.Reader }

// borrowReader returns a reader, for calls that read few mounts. The caller calls Return.
func borrowReader() mountReader { return mountReader{record.Borrow()} }

func (r mountReader) read(ctx context.Context, id, mask uint64) (record.Record, error) {
	if ctx.Err() != nil {
		return record.Record{}, ctxend.Error(ctx)
	}
	return r.Reader.Read(id, mask)
}

// readEntry returns the mount table's entry of a mount. ok is false for a mount outside the
// table.
func (r mountReader) readEntry(ctx context.Context, id uint64) (_ mountinfo.Entry, ok bool, err error) {
	f, err := r.read(ctx, id, record.WantLine)
	if errors.Is(err, fs.ErrNotExist) {
		return mountinfo.Entry{}, false, nil
	}
	if err != nil || len(f.MountPoint()) == 0 {
		return mountinfo.Entry{}, false, err
	}
	return mountinfo.EntryFrom(f), true, nil
}

// readContent returns the content at a path in a mount.
func (r mountReader) readContent(ctx context.Context, in uint64, p string) (mountinfo.Content, error) {
	f, err := r.read(ctx, in, record.WantDevice|record.WantRoot|record.WantPoint|record.WantType|record.WantSource)
	if err != nil {
		return mountinfo.Content{}, err
	}
	whole, err := contentRoot(f)
	if err != nil {
		return mountinfo.Content{}, err
	}
	rest, ok := mountinfo.CutDir(string(f.MountPoint()), p)
	if !ok {
		return mountinfo.Content{}, fmt.Errorf("mount %d is not in the table: %w", in, fs.ErrNotExist)
	}
	root, deleted := strings.CutSuffix(whole, record.DeletedMark)
	if rest != "" {
		root = path.Join(root, rest)
	}
	if deleted {
		root += record.DeletedMark
	}
	return mountinfo.Content{Device: f.Device(), Root: root}, nil
}

// readReference returns the mount point of a mount that shows root and is visible. It returns
// "" for any other mount, and for a mount at the path except.
func (r mountReader) readReference(ctx context.Context, id uint64, root, except string) (point string, err error) {
	f, err := r.read(ctx, id, record.WantRoot|record.WantPoint|record.WantType|record.WantSource)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	whole, err := contentRoot(f)
	if err != nil || whole != root || string(f.MountPoint()) == except || len(f.MountPoint()) == 0 {
		return "", err
	}
	point = string(f.MountPoint())
	if visible, err := r.isVisible(ctx, id, point); err != nil || !visible {
		return "", err
	}
	return point, nil
}

// contentRoot returns the root of a mount for its content. For NFS that takes the source, which
// the kernel reports from Linux 6.13 on.
func contentRoot(f record.Record) (string, error) {
	fsType := string(f.Bytes(record.WantType, f.TypeAt))
	if mountinfo.IsNFS(fsType) && !f.Has(record.WantSource) {
		return "", fmt.Errorf("directory of an NFS mount: requires Linux 6.13: %w", errors.ErrUnsupported)
	}
	return mountinfo.ContentRoot(fsType, string(f.Bytes(record.WantSource, f.SourceAt)), string(f.RootPath())), nil
}

// rootInode returns the inode of a mount's root, or 0 if it cannot be known: the mount is
// hidden, or its file system may not answer or may report another inode later.
func (c *Cache) rootInode(id uint64) uint64 {
	r, err := c.reader.Read(id, record.WantDevice|record.WantPoint)
	if err != nil || !record.LocalKinds[r.Magic] || len(r.MountPoint()) == 0 {
		return 0
	}
	fd, err := openCached(string(r.MountPoint()))
	if err != nil {
		return 0
	}
	defer kernel.Close(fd)
	at, unique, err := kernel.IdentifyUnique(fd)
	if err != nil || unique != id { // hidden by another mount
		return 0
	}
	return at.Inode
}
