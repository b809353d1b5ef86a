package nfs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// A directory is the directory of a volume to create.
type directory struct {
	volume   string
	rel      string // relative to the export
	mode     uint32
	uid, gid int    // -1: the server's choice
	owner    string // the volume, or the result of sharedOwner
	given    int    // the number of leading components that may exist without a record
	adopts   bool   // so may the last one, if no tenant chooses a parent
}

// shared reports whether further volumes have the directory.
func (d directory) shared() bool { return strings.Contains(d.owner, "/") }

// The owner of a directory that is no single volume's contains a "/", which no name of a volume
// does.
const (
	// parentOwner is the owner of a directory with the directories of volumes.
	parentOwner = "parent/"
	// sharedPrefix begins the results of sharedOwner.
	sharedPrefix = "retain/"
)

// sharedOwner returns the owner of the directories that volumes by a pattern share.
func sharedOwner(pattern string) string {
	sum := sha256.Sum256([]byte(pattern))
	return sharedPrefix + hex.EncodeToString(sum[:16])
}

var (
	// errOccupied is the error for a directory that exists and was not created for the volume.
	errOccupied   = errors.New("the directory exists and was not created for this volume")
	errNotMounted = errors.New("the export is not mounted")
	errMoved      = errors.New("the directory was replaced meanwhile")
	errRecord     = errors.New("the record of the volume is invalid")
	errCrossing   = errors.New("the directory is in another file system than the export")
)

// An ownedError is the error for a directory with another owner.
type ownedError struct{ dir, owner string }

func (e *ownedError) Error() string {
	switch {
	case e.owner == parentOwner:
		return fmt.Sprintf("directory %q contains directories of other volumes", e.dir)
	case strings.HasPrefix(e.owner, sharedPrefix):
		return fmt.Sprintf("directory %q is shared by volumes of another %s", e.dir, pathPattern)
	}
	return fmt.Sprintf("directory %q belongs to volume %q", e.dir, e.owner)
}

// ownerName returns the name of the entry in ownersDir for a directory.
func ownerName(rel string) string {
	sum := sha256.Sum256([]byte(rel))
	return hex.EncodeToString(sum[:])
}

// volumeName returns the name of the entry in ownersDir for a volume.
func volumeName(pvName string) string { return "volume-" + ownerName(pvName) }

// begunPrefix begins the record of a volume whose directory is not shared.
const begunPrefix = "own/"

// begun returns the record of the volume: the directory, after its owner.
func (d directory) begun() string {
	if d.shared() {
		return d.owner + "/" + d.rel
	}
	return begunPrefix + d.rel
}

// parseBegun returns the directory of a result of begun.
func parseBegun(pvName, record string) (*directory, error) {
	d := &directory{volume: pvName, owner: pvName}
	rel, own := strings.CutPrefix(record, begunPrefix)
	if !own {
		sum, below, _ := strings.Cut(strings.TrimPrefix(record, sharedPrefix), "/")
		rel, d.owner = below, sharedPrefix+sum
	}
	if d.rel = rel; checkDirectory(nil, rel) != nil {
		return nil, fmt.Errorf("%w: %q", errRecord, record)
	}
	return d, nil
}

// owners returns the owners of the directory and of its parents, the topmost first.
func (d directory) owners() (all []ownedDirectory) {
	parts := strings.Split(d.rel, "/")
	for i := range parts {
		all = append(all, ownedDirectory{strings.Join(parts[:i+1], "/"), parentOwner, i < d.given, false})
	}
	last := &all[len(parts)-1]
	last.owner, last.adopted = d.owner, d.adopts && d.given == len(parts)-1 && !isForeignName(parts[len(parts)-1])
	return all
}

// An ownedDirectory is a directory with its owner.
type ownedDirectory struct {
	rel, owner string
	given      bool // may exist without a record
	adopted    bool // so, too, if it is a directory
}
