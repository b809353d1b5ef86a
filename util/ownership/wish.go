package ownership

// A kind is the type of an entry, as far as changes depend on it.
type kind int

const (
	other kind = iota // files, FIFOs, devices, sockets
	directory
	symlink
)

// A state is the owner and the mode of an entry.
type state struct {
	kind     kind
	uid, gid uint32
	mode     uint32 // the bits of chmod(2)
}

const (
	setUserID  = 0o4000
	setGroupID = 0o2000

	readWrite = 0o660
	readOnly  = 0o440
	enter     = 0o110
)

// A change is the difference between a state and the Options.
type change struct {
	chown    bool
	uid, gid int64 // -1 stays
	chmod    bool
	mode     uint32
}

func (c change) none() bool { return !c.chown && !c.chmod }

// changesOwner reports whether the user or the group changes.
func (c change) changesOwner(state) bool { return c.chown }

// changesAccess reports whether the mode changes in more than set-group-ID, which some file systems do not have, and
// which the kernel may drop for a process without CAP_FSETID.
func (c change) changesAccess(s state) bool {
	return c.chmod && (c.mode^s.mode)&^setGroupID != 0
}

// change returns the change that an entry needs. A changed file loses set-user-ID and
// set-group-ID: otherwise a program of its previous owner would run as the new one.
// Restoring these bits after chown(2) has cleared them would trust an outdated read.
func (o Options) change(s state) change {
	c := change{uid: differing(o.User, s.uid), gid: differing(o.Group, s.gid), mode: s.mode | o.mask(s.kind)}
	c.chown = c.uid >= 0 || c.gid >= 0
	if s.kind == other && (c.chown || c.mode != s.mode) {
		c.mode &^= setUserID | setGroupID
	}
	c.chmod = s.kind != symlink && c.mode != s.mode
	return c
}

// differing returns the wanted ID, or -1 if the entry has it or want is nil.
func differing(want *int64, have uint32) int64 {
	if want == nil || *want == int64(have) {
		return -1
	}
	return *want
}

// mask returns the bits that the mode must have at least.
func (o Options) mask(k kind) uint32 {
	mask := uint32(readWrite)
	if o.ReadOnly {
		mask = readOnly
	}
	switch {
	case o.Group == nil || k == symlink:
		return 0
	case k == directory:
		return mask | enter | setGroupID
	}
	return mask
}
