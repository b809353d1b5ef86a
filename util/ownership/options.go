package ownership

import "fmt"

// Options select the new owners. Options with neither User nor Group change nothing.
type Options struct {
	// User and Group are the owners. Nil keeps the present one. Modes change only with
	// a group.
	User, Group *int64
	// ReadOnly lets the group read, but not write.
	ReadOnly bool
	// Policy selects the entries to check. The zero value checks all.
	Policy Policy
	// OnUnchanged is called for each entry that cannot be changed or read, such as an immutable
	// file, with its path in the directory ("." is the directory itself) and the error. If it
	// returns nil the entry stays as it is, with all in a directory that cannot be read, and
	// Apply goes on as if it were right: later calls with OnRootMismatch do not see it again. It
	// is called by several workers at once. Nil: such an entry is an error.
	OnUnchanged func(entry string, err error) error
	// Workers is the number of parallel workers. 0 chooses by the file system: few on a
	// disk, more on a network file system.
	Workers int
}

// A Policy selects the entries to check. Its values are those of a pod's
// fsGroupChangePolicy.
type Policy int

const (
	// Always checks every entry.
	Always Policy = iota
	// OnRootMismatch checks the directory itself first, and no other entry if the
	// directory is right.
	OnRootMismatch
)

// Counts are the numbers of entries of a call.
type Counts struct {
	Seen    int64 // entries checked, including the directory itself
	Changed int64 // entries changed
	// Mounts is the number of entries that were left alone because they are mount
	// points. With CAP_SYS_ADMIN (Linux 5.12) Apply works below mounts and mostly counts
	// none: it changes the entry under a mount, but never the mounted file system.
	Mounts int64
}

const (
	maxWorkers = 256
	maxID      = 1<<32 - 2 // 1<<32 - 1 means "no change" to chown(2)
)

func (o Options) check() error {
	for _, id := range []struct {
		field string
		value *int64
	}{{"User", o.User}, {"Group", o.Group}} {
		if id.value != nil && (*id.value < 0 || *id.value > maxID) {
			return operation.Refuse(id.field, *id.value, "must be a user or group ID")
		}
	}
	switch {
	case o.Policy != Always && o.Policy != OnRootMismatch:
		return operation.Refuse("Policy", int(o.Policy), "unknown policy")
	case o.Workers < 0 || o.Workers > maxWorkers:
		return operation.Refuse("Workers", o.Workers, fmt.Sprintf("must be from 0 to %d", maxWorkers))
	}
	return nil
}
