package protect

import (
	"context"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"k8s.io/apimachinery/pkg/types"
)

// An object is a claim or a volume.
type object interface {
	api.Object
	comparable
}

// A protection adds the finalizer of one kind to its objects, and removes it from unused ones.
type protection[O object] struct {
	objects   *api.Objects[O]
	finalizer string
	// isExact: the finalizer is removed from the version that was found unused, and from no later one.
	isExact bool
	recheck time.Duration
	// inCache reports whether the caches have a user of an object, and onServer whether the API server
	// has one.
	inCache  func(O) bool
	onServer func(context.Context, O) (bool, error)
}

// handle takes the next step for an object.
func (p *protection[O]) handle(ctx context.Context, key api.Key) (workers.Result, error) {
	object, err := p.objects.Get(ctx, key)
	if err != nil {
		return workers.Result{}, fmt.Errorf("read %s: %w", key, err)
	}
	if object == *new(O) {
		return workers.Result{}, nil
	}
	next := decide(object, p.finalizer, usageUnread)
	if next == stepRead {
		u, err := readUsage(ctx, object, p.inCache, p.onServer)
		if err != nil {
			return workers.Result{}, fmt.Errorf("read the users of %s: %w", key, err)
		}
		next = decide(object, p.finalizer, u)
	}
	patch := objectpatch.Of(object)
	switch next {
	case stepProtect:
		return workers.Result{}, patchObject(ctx, p.objects, key, patch.WithFinalizer(p.finalizer))
	case stepRelease:
		if p.isExact {
			patch = patch.OfVersion(object)
		}
		return workers.Result{}, patchObject(ctx, p.objects, key, patch.WithoutFinalizer(p.finalizer))
	case stepRecheck:
		return workers.Result{After: p.recheck}, nil
	}
	return workers.Result{}, nil
}

// readUsage returns whether an object is used, by the caches, or by the API server if the caches have no
// user.
func readUsage[O any](ctx context.Context, object O, inCache func(O) bool, onServer func(context.Context, O) (bool, error)) (usage, error) {
	if inCache(object) {
		return usedInCache, nil
	}
	used, err := onServer(ctx, object)
	switch {
	case err != nil:
		return usageUnread, err
	case used:
		return usedOutside, nil
	}
	return unused, nil
}

// patchObject patches an object, or a subresource of it.
func patchObject[O object](ctx context.Context, objects *api.Objects[O], key api.Key, p objectpatch.Patch, subresources ...string) error {
	data, err := p.Encode()
	if err == nil {
		_, err = objects.Patch(ctx, key, types.StrategicMergePatchType, data, subresources...)
	}
	if err != nil {
		return fmt.Errorf("patch %s: %w", key, err)
	}
	return nil
}
