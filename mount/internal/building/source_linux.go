package building

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"golang.org/x/sys/unix"
)

// A Source is the resolved directory or file of a bind mount.
type Source struct {
	FD     int
	ID     kernel.Identity
	Unique uint64 // unique mount ID of its mount; 0: unknown
	// anchored is the same file in an anchor, which is cloned instead; -1: none.
	anchored int
	proof    proof
}

// A proof is the way in which a tree proves that its source is alone.
type proof int

const (
	noProof          proof = iota
	proofByUniqueIDs       // by consecutive unique mount IDs
	proofByStaging         // by a staging area
)

// OpenSource opens the source of a bind mount.
func OpenSource(ctx context.Context, l lookup.Lookup, s *spec.Spec) (*Source, error) {
	fd, err := openSource(ctx, l, s)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	source := &Source{FD: fd, anchored: -1}
	if source.ID, source.Unique, err = kernel.IdentifyUnique(fd); err != nil {
		source.Close()
		return nil, fmt.Errorf("source: %w", err)
	}
	if source.ID.Device {
		if err := s.AdmitDevice(); err != nil {
			source.Close()
			return nil, err
		}
	}
	return source, nil
}

// Close closes the descriptors of the source.
func (s *Source) Close() { kernel.Close(s.FD, s.anchored) }

// openSource returns a descriptor of the source. The source file stays open during the copy,
// or is found closed: a caller that has given up may close it at any time.
func openSource(ctx context.Context, l lookup.Lookup, s *spec.Spec) (int, error) {
	if s.SourceFile == nil {
		return l.Open(ctx, s.Source, 0)
	}
	conn, err := s.SourceFile.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	var inner error
	if err := conn.Control(func(open uintptr) { fd, inner = copyDescriptor(int(open)) }); err != nil {
		return -1, os.ErrClosed // err does not wrap it
	}
	return fd, inner
}

// copyDescriptor refuses a symbolic link, as a lookup does.
func copyDescriptor(open int) (int, error) {
	var x unix.Statx_t
	if err := unix.Statx(open, "", unix.AT_EMPTY_PATH|kernel.Quiet, unix.STATX_TYPE, &x); err != nil {
		return -1, err
	}
	if x.Mode&unix.S_IFMT == unix.S_IFLNK {
		return -1, failure.ErrLink
	}
	return unix.FcntlInt(uintptr(open), unix.F_DUPFD_CLOEXEC, 0)
}

// A Spot is the position of a source.
type Spot struct {
	mount  uint64 // unique mount ID
	attrs  uint64 // of the mount
	point  string // mount point
	Inside string // path of the source below the mount point; empty for the mount's root
}

// FindSpot returns the spot of the source (Linux 6.8).
func (s *Source) FindSpot() (Spot, error) {
	if s.Unique == 0 {
		return Spot{}, kernel.ErrNoUniqueIDs
	}
	path, err := kernel.PathOf(s.FD)
	if err != nil {
		return Spot{}, err
	}
	r := record.Borrow()
	defer r.Return()
	mount, err := r.Read(s.Unique, record.WantMount|record.WantPoint)
	if err != nil {
		return Spot{}, err
	}
	point := string(mount.MountPoint())
	inside, ok := mountinfo.CutDir(point, path)
	if !ok {
		return Spot{}, fmt.Errorf("%q is not in %q: %w", path, point, fs.ErrNotExist)
	}
	return Spot{mount: s.Unique, attrs: mount.Attrs, point: point, Inside: inside}, nil
}

// errNotLone is the error of a clone that may have submounts.
var errNotLone = errors.New("the clone of the source may have submounts")

// IsNotLone reports whether a build has failed since it could not prove that its source is
// alone. The mount table shows the truth then.
func IsNotLone(err error) bool { return errors.Is(err, errNotLone) }
