package manager

import (
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/manager/internal/record"
)

// A disk is the part of the host's root that the manager itself reads and writes. The
// simulation has its own.
type disk interface {
	execution.Disk
	Read() ([]record.Record, map[string]record.Broken)
	RecordDir() string
	// FindVolumes returns the directories of pods' volumes.
	FindVolumes() (poddirs.Layout, error)
	// RemoveEmptyDirs removes all empty directories of pods. No operation is in flight.
	RemoveEmptyDirs()
}
