package manager

import (
	"fmt"

	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// An Expansion is the result of growing a volume on this node, for the program that updates
// the status of its claim: the size belongs in status.capacity, and the condition
// FileSystemResizePending ends.
type Expansion struct {
	Claim  types.NamespacedName // the claim bound to the volume
	Unique v1.UniqueVolumeName
	Spec   *volume.Spec
	Plugin string
	// OldSize is the last known size; zero: not known. NewSize is the requested size, which the
	// volume has if Err is nil.
	OldSize, NewSize resource.Quantity
	// Err is why the volume was not grown. The manager retries, unless Err wraps
	// volume.ErrNotSupported: then this node has nothing to grow.
	Err error
}

// expansionOf returns the result of an expand job.
func expansionOf(out execution.Outcome) Expansion {
	e := Expansion{Unique: out.Volume, Spec: out.Spec, Plugin: out.PluginName, NewSize: *out.Size, Err: out.Err}
	if out.Silent {
		e.Err = fmt.Errorf("%w: %w", execution.ErrNothingToGrow, volume.ErrNotSupported)
	}
	if out.OldSize != nil {
		e.OldSize = *out.OldSize
	}
	if ref := out.Spec.PersistentVolume.Spec.ClaimRef; ref != nil {
		e.Claim = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	return e
}
