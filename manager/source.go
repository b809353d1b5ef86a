package manager

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A PodSource returns the pods of this node, from an API server, files or memory. Methods are
// called from several goroutines, and return soon after their context ends (see
// Config.SourceTimeout).
//
// The claims and persistent volumes of the pods come from Config.Claims. The contents of
// volumes, such as configuration and secrets, are read by the plugins: see package content.
type PodSource interface {
	// Pods returns all pods of this node, or an error: the volumes of a missing pod are torn
	// down. A pod stays in the list until its containers have ended; a pod of phase Succeeded or
	// Failed has none. The returned pods must not be changed.
	Pods(ctx context.Context) ([]*v1.Pod, error)

	// Changed returns a channel, always the same one, that receives a value, or is closed, after
	// a possible change of a pod, or of a claim or persistent volume if Config.Claims is no
	// [ChangeNotifier]. A value may be dropped while another one is pending, so a channel of
	// length one is enough. The manager ignores a closed channel.
	Changed() <-chan struct{}
}

// An IncrementalPodSource is a [PodSource] that reports which objects have changed, and that
// returns single pods. The manager then reads and compares only the changed objects and the
// pods that use them: a change costs the same for any number of pods. The channel of Changed
// is not used.
//
// A type that embeds an IncrementalPodSource and overrides Pods must override Pod as well.
type IncrementalPodSource interface {
	PodSource
	ChangeNotifier

	// Pod returns a pod of this node. For a pod that Pods would not return the error satisfies
	// volume.IsNotFound, and the pod's volumes are torn down. After any other error the pod
	// counts as unchanged, and is read again.
	Pod(ctx context.Context, uid types.UID) (*v1.Pod, error)
}

// A ChangeNotifier reports which objects have changed. Config.Pods and Config.Claims may each be
// one; a change of a claim or volume may be reported by either. If Config.Pods is no
// [IncrementalPodSource], the manager reads all pods after each change.
type ChangeNotifier interface {
	// Subscribe makes the source call changed after each change, from any goroutine, until
	// unsubscribe is called. Both functions return at once. changed must not call the source.
	//
	// When changed is called, reads of the source already return the change. Several changes may
	// be reported in one call and in any order, and a change may be reported twice. A change that
	// is not reported is found at the next resync (Config.Resync), or when a later change makes
	// the manager read the same pods.
	Subscribe(changed func(Change)) (unsubscribe func())
}

// A Change names the objects that have been added, changed or removed. The zero value names
// none.
type Change struct {
	Pods    []types.UID
	Claims  []types.NamespacedName
	Volumes []string // persistent volumes
	// Everything says that any object may have changed, as after a lost connection.
	Everything bool
}
