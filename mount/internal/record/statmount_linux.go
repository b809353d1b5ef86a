package record

// statmountRequest is struct mnt_id_req of linux/mount.h, in its first version.
type statmountRequest struct {
	size  uint32
	_     uint32
	mount uint64
	mask  uint64
}

// statmountAnswer is struct statmount of linux/mount.h. Strings follow it; their fields hold
// offsets from its end.
type statmountAnswer struct {
	size, _                uint32
	mask                   uint64
	Major, Minor           uint32
	Magic                  uint64 // kind of the file system
	superFlags, TypeAt     uint32
	id, Parent             uint64
	TableID, TableParentID uint32 // mount IDs of the mount table
	Attrs, propagation     uint64
	peers, master, from    uint64
	root, point            uint32
	_                      uint64 // the namespace
	subtype, SourceAt      uint32
	options, optionsAt     uint32 // number and offset
	security, securityAt   uint32
	_                      uint64 // supported parts
	UIDs, UIDsAt           uint32
	GIDs, GIDsAt           uint32
	_                      [512 - 168]byte
}
