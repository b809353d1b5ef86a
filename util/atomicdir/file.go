package atomicdir

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/volumekit/volumekit/internal/input"
)

// A File is one file of a set. It may be a secret, so formatting it, with any verb, prints
// its size alone.
type File struct {
	// Data is the file's content. Write does not change it.
	Data []byte
	// Mode is the file's permissions, without other bits. Nil: those of the Options.
	Mode *fs.FileMode
	// UID is the file's owner. Nil: UID of the Options.
	UID *int
}

// Format implements [fmt.Formatter].
func (f File) Format(s fmt.State, _ rune) { _, _ = fmt.Fprintf(s, "file of %d bytes", len(f.Data)) }

// MarshalJSON returns the text of Format as a JSON string.
func (f File) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%q", fmt.Sprint(f)), nil }

// Options configure the files of a set. The zero value is the kubelet's for configMaps.
type Options struct {
	// Mode is the permissions of files without their own. Nil: 0644.
	Mode *fs.FileMode
	// DirMode is the permissions of directories in the set. Nil: 0755.
	DirMode *fs.FileMode
	// UID and GID own the files and directories of the set, from before the set becomes
	// visible. Nil: the process's own. A set with other owners is replaced.
	UID, GID *int
	// Durable syncs files and directories, so that the set of a Write that has returned
	// survives a loss of power. Without it a set that was written shortly before can be
	// torn after the machine's next start, until the next Write: enough for a set that
	// is always rewritten from its source before it is read. Memory file systems are
	// never synced.
	Durable bool
	// MountPoints are created with DirMode, or Mode, and the owners above, and not changed
	// afterwards. Files of the set next to them and below them are visible as usual; a
	// file of the set with the name of a mount point, or of a directory on the way to one,
	// is in ..data alone. Mount points that are no longer in the list stay until a file of
	// the set needs their name.
	MountPoints []MountPoint
}

const (
	defaultMode    fs.FileMode = 0o644
	defaultDirMode fs.FileMode = 0o755
)

// Perm returns a pointer to permissions, for fields of [File] and [Options].
func Perm(mode fs.FileMode) *fs.FileMode { return &mode }

func (o Options) dirMode() fs.FileMode { return or(o.DirMode, defaultDirMode) }

func (o Options) fileMode(f File) fs.FileMode { return or(f.Mode, or(o.Mode, defaultMode)) }

// withOwners replaces nil owners by the process's own: the file system must not choose them,
// since files in a set-group-ID directory get the directory's group.
func (o Options) withOwners() Options {
	if o.UID == nil {
		uid := os.Geteuid()
		o.UID = &uid
	}
	if o.GID == nil {
		gid := os.Getegid()
		o.GID = &gid
	}
	return o
}

// owner returns the owner of a file. The options must come from withOwners.
func (o Options) owner(f File) (uid, gid int) { return or(f.UID, *o.UID), *o.GID }

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// check refuses modes with other bits than permissions, and owners that are out of range.
func (o Options) check(files map[string]File) error {
	for name, f := range files {
		if f.Mode == nil && f.UID == nil {
			continue // without a name for each check
		}
		if err := checkMode("Mode of "+input.Shorten(name), f.Mode); err != nil {
			return err
		}
		if err := checkID("UID of "+input.Shorten(name), f.UID); err != nil {
			return err
		}
	}
	for field, mode := range map[string]*fs.FileMode{"Options.Mode": o.Mode, "Options.DirMode": o.DirMode} {
		if err := checkMode(field, mode); err != nil {
			return err
		}
	}
	if err := checkID("Options.UID", o.UID); err != nil {
		return err
	}
	return checkID("Options.GID", o.GID)
}

func checkMode(field string, mode *fs.FileMode) error {
	if mode == nil || *mode == mode.Perm() {
		return nil
	}
	return operation.Refuse(field, fmt.Sprintf("%#o", uint32(*mode)), "must be from 0 to 0777")
}

// maxID is the largest ID of an owner; 1<<32 - 1 means "no change" to chown(2).
const maxID = 1<<32 - 2

func checkID(field string, id *int) error {
	if id == nil || *id >= 0 && int64(*id) <= maxID {
		return nil
	}
	return operation.Refuse(field, *id, "must be a user or group ID")
}
