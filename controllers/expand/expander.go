package expand

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// An Expander makes the storage of volumes larger. Its methods are called concurrently, Expand for one
// volume at a time.
type Expander interface {
	// Name returns the name of the driver or plugin that makes a volume larger; claims carry it in
	// [ResizerAnnotation]. It is empty for a volume of another program. Name does not block, and
	// returns the same name each time.
	Name(pv *v1.PersistentVolume) string

	// Expand makes the storage of a volume at least as large as req.NewSize, and returns its size. It
	// is idempotent: storage that is large enough stays as it is. The kind of an error (package volume)
	// is the state of the storage:
	//
	//   - final: nothing has changed. If the error wraps [volume.ErrInfeasible], the controller repeats
	//     the call rarely, until the claim requests another size.
	//   - transient: this call has changed nothing. [volume.ErrFailedPrecondition] says that the volume
	//     is in use, and grows only without pods.
	//   - uncertain: the storage may be larger, now or later. The controller repeats the call with the
	//     same size until the outcome is known, also if the claim requests another size meanwhile. A
	//     panic of Expand counts as an uncertain error.
	//
	// If ctx ends, Expand returns soon.
	Expand(ctx context.Context, req volume.ExpandRequest) (volume.ExpandResult, error)
}

// FromPlugins returns the Expander of those registered plugins that are a
// [volume.ExpandableVolumePlugin]. Plugins may be registered later.
func FromPlugins(plugins *volume.VolumePluginMgr) Expander { return pluginExpander{plugins} }

// A pluginExpander expands by plugins.
type pluginExpander struct{ plugins *volume.VolumePluginMgr }

func (e pluginExpander) Name(pv *v1.PersistentVolume) string {
	plugin, err := e.plugins.FindPluginBySpec(volume.NewSpecFromPersistentVolume(pv, false))
	if err != nil {
		return ""
	}
	if _, ok := volume.As[volume.ExpandableVolumePlugin](plugin); !ok {
		return ""
	}
	return plugin.GetPluginName()
}

// Expand implements [Expander]. The error for a volume without a plugin that expands it is transient: it says nothing
// of an earlier call.
func (e pluginExpander) Expand(ctx context.Context, req volume.ExpandRequest) (volume.ExpandResult, error) {
	plugin, ok, err := volume.FindBySpec[volume.ExpandableVolumePlugin](e.plugins, req.Spec)
	if err == nil && !ok {
		err = fmt.Errorf("no plugin expands the volume: %w", volume.ErrNotSupported)
	}
	if err != nil {
		return volume.ExpandResult{}, volume.AsTransient(err)
	}
	return plugin.ExpandVolumeDevice(ctx, req)
}
