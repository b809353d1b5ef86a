package desired

import (
	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/naming"
	v1 "k8s.io/api/core/v1"
)

// A World is the desired state of the world: the volumes that the pods of this
// node need.
type World struct {
	// Populated says that the state contains all pods. Nothing is torn down before, because
	// the source may have pods that were not read yet.
	Populated bool
	// Kept are the pods with unresolved volumes. Their existing volumes stay.
	Kept    naming.UIDSet
	Volumes persistent.Map[v1.UniqueVolumeName, *Volume]
}
