package nfs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// A directory is the directory of a volume to create.
type directory struct {
	rel      string // relative to the export
	mode     uint32
	uid, gid int    // -1: the server's choice
	owner    string // the volume, of a directory that must be no other volume's; "": by its name it is none
	shared   bool   // with the volumes of earlier claims
}

var (
	// errOccupied is the error for a directory that exists and was not created for the volume.
	errOccupied   = errors.New("the directory exists and was not created for this volume")
	errNotMounted = errors.New("the export is not mounted")
	errMoved      = errors.New("the directory was replaced meanwhile")
	errCrossing   = errors.New("the directory is in another file system than the export")
)

// An ownedError is the error for a directory of another volume.
type ownedError struct{ dir, owner string }

func (e *ownedError) Error() string {
	return fmt.Sprintf("directory %q belongs to volume %q", e.dir, e.owner)
}

// ownerName returns the name of the entry in ownersDir for a directory.
func ownerName(rel string) string {
	sum := sha256.Sum256([]byte(rel))
	return hex.EncodeToString(sum[:])
}
