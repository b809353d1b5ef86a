package atomicdir

import (
	"fmt"
	"io/fs"
	"os"
)

// A File is one file of a set. It may be a secret, so formatting it, with whatever
// verb, shows its size alone.
type File struct {
	// Data is what is in the file. Write does not change it.
	Data []byte
	// Mode is the file's permissions, and nothing else. Nil: those of the Options.
	Mode *fs.FileMode
	// UID owns the file. Nil: as the Options say.
	UID *int
}

// Format implements [fmt.Formatter].
func (f File) Format(s fmt.State, _ rune) { _, _ = fmt.Fprintf(s, "file of %d bytes", len(f.Data)) }

// MarshalJSON writes what Format does.
func (f File) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%q", fmt.Sprint(f)), nil }

// Options say how files are written. The zero value is what configMaps have.
type Options struct {
	// Mode is the permissions of files that have none of their own. Nil: 0644.
	Mode *fs.FileMode
	// DirMode is that of directories in the set. Nil: 0755.
	DirMode *fs.FileMode
	// UID and GID own the files and directories of the set, from before they can be
	// seen. Nil: the process's own. A set that belongs to others is not as asked.
	UID, GID *int
}

const (
	defaultMode    fs.FileMode = 0o644
	defaultDirMode fs.FileMode = 0o755
)

// Perm returns a pointer to permissions, as [File] and [Options] have it.
func Perm(mode fs.FileMode) *fs.FileMode { return &mode }

func (o Options) dirMode() fs.FileMode { return or(o.DirMode, defaultDirMode) }

func (o Options) fileMode(f File) fs.FileMode { return or(f.Mode, or(o.Mode, defaultMode)) }

// owner is never left to the file system: a directory may give its group away.
func (o Options) owner(f File) (uid, gid int) {
	return or(f.UID, or(o.UID, os.Geteuid())), or(o.GID, os.Getegid())
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// check refuses modes that are more than permissions, and owners that are nobody.
func (o Options) check(files map[string]File) error {
	for name, f := range files {
		if err := checkMode("Mode of "+shorten(name), f.Mode); err != nil {
			return err
		}
		if err := checkID("UID of "+shorten(name), f.UID); err != nil {
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
	return &InputError{Field: field, Value: fmt.Sprintf("%#o", uint32(*mode)), Reason: "not permissions, 0 to 0777"}
}

// maxID is the last that is an owner; one more is -1 to the kernel.
const maxID = 1<<32 - 2

func checkID(field string, id *int) error {
	if id == nil || *id >= 0 && int64(*id) <= maxID {
		return nil
	}
	return &InputError{Field: field, Value: fmt.Sprint(*id), Reason: "not an owner's number"}
}
