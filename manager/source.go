package manager

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// A Source knows what this node should have: the embedder's API server, its files, or
// whatever else tells it. Methods are called from several goroutines, and return soon
// after their context ends (see Config.SourceTimeout). As long as it is not known what is
// behind a volume, that is not set up, and what its pod has stays; no other volume waits
// for it.
//
// What the volumes hold, configuration and secrets, is for the plugins to get: see
// package content.
type Source interface {
	// Pods returns the pods of this node, all of them, or an error: a pod that is
	// missing is one whose volumes are taken down. A pod stays in the list until its
	// containers have ended; one whose phase is Succeeded or Failed has none. The
	// pods are not changed by anybody from then on.
	Pods(ctx context.Context) ([]*v1.Pod, error)

	// PersistentVolumeClaim returns a claim. If it does not exist the error wraps
	// fs.ErrNotExist; that, like any other error, is tried again.
	PersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)

	// PersistentVolume is the same for a volume.
	PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error)

	// Changed returns a channel that gets a value, or is closed, after something may
	// have changed; always the same one. Values may be lost while one waits already,
	// so a channel of length one is enough. A closed one is no longer looked at.
	Changed() <-chan struct{}
}
