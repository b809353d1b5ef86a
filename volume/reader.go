package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/notfound"
)

// A ClaimReader returns claims and the persistent volumes to which they are bound, from an API
// server, a cache, files or memory. The node's manager and controllers can share one, which may
// also return further kinds of objects, in methods of the same form: GetConfigMap, GetSecret
// (package content), GetStorageClass.
//
// The methods are called from any goroutine and return soon after ctx ends. The error of a
// missing object satisfies [IsNotFound]; after any other error the caller retries. Callers do
// not change the returned objects.
type ClaimReader interface {
	GetPersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)
	GetPersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error)
}

// IsNotFound reports whether an error of a reader says that the object is missing: it wraps
// fs.ErrNotExist, or satisfies apierrors.IsNotFound of k8s.io/apimachinery/pkg/api/errors, as
// the errors of clients and listers do.
func IsNotFound(err error) bool { return notfound.Is(err) }
