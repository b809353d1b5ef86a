package reading

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/manager/internal/plugincall"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Config configures a [Reader].
type Config struct {
	// Pods returns all pods of the node, Pod one of them. Pod is nil for a source without single
	// reads; then ReadPods must not be called.
	Pods func(ctx context.Context) ([]*v1.Pod, error)
	Pod  func(ctx context.Context, uid types.UID) (*v1.Pod, error)
	// Claims returns claims and persistent volumes.
	Claims volume.ClaimReader
	// Timeout limits one read.
	Timeout time.Duration
	// Spawn runs work in the background. Nil: at once.
	Spawn func(work func())
	// Late is called after an abandoned read has ended: see DrainLate.
	Late func()
}

// A Reader reads pods, claims and volumes. It abandons slow reads, keeps their results for the
// next caller, and never reads an object twice at the same time.
//
// ListPods, ReadPods, ReadClaims and DropUnused are called by one goroutine at a time; DrainLate
// is safe for concurrent use.
type Reader struct {
	config Config

	mu      sync.Mutex
	pending map[Ref]*read // abandoned reads, in flight or with a result
	slow    map[Ref]bool  // objects whose last read was abandoned; their reads do not wait
	late    []Ref         // objects whose abandoned read has ended
}

// NewReader returns a reader.
func NewReader(config Config) *Reader {
	return &Reader{config: config, pending: map[Ref]*read{}, slow: map[Ref]bool{}}
}

// ListPods returns all pods of the node. A nil pod or a panic of the source is an error.
func (r *Reader) ListPods(ctx context.Context) (pods []*v1.Pod, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	defer plugincall.RecoverPanic(&err)
	if pods, err = r.config.Pods(ctx); err == nil && slices.Contains(pods, nil) {
		err = errNilPod
	}
	return pods, err
}

// ReadPods reads single pods. A removed pod is nil in pods, a pod whose read failed is in failed,
// and a pod whose read is still in flight is in neither. isOld reports whether a pod may be
// older than the generation.
func (r *Reader) ReadPods(ctx context.Context, uids []types.UID, generation int) (pods map[types.UID]*v1.Pod, failed map[types.UID]error, isOld bool) {
	refs := make([]Ref, 0, len(uids))
	for _, uid := range uids {
		refs = append(refs, PodRef(uid))
	}
	objects := make(Objects, len(uids))
	isOld = r.readAll(ctx, refs, generation, objects)
	pods, failed = make(map[types.UID]*v1.Pod, len(uids)), map[types.UID]error{}
	for ref, object := range objects {
		uid := types.UID(ref.Name)
		switch err := object.podError(uid); {
		case err == nil:
			pods[uid] = object.pod
		case volume.IsNotFound(err):
			pods[uid] = nil
		case !errors.Is(err, ErrPending):
			failed[uid] = err
		}
	}
	return pods, failed, isOld
}

// ReadClaims reads the claims that containers of the pods use, and the claims' volumes. isOld
// reports whether an object may be older than the generation.
func (r *Reader) ReadClaims(ctx context.Context, pods []*v1.Pod, generation int) (objects Objects, isOld bool) {
	objects = make(Objects, 2*len(pods)) // a claim and a volume each
	claims := claimRefsOf(pods)
	oldClaims := r.readAll(ctx, claims, generation, objects)
	oldVolumes := r.readAll(ctx, volumeRefsOf(claims, objects), generation, objects)
	return objects, oldClaims || oldVolumes
}

// DrainLate returns the objects whose abandoned reads have ended since the last call.
func (r *Reader) DrainLate() (late []Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	late, r.late = r.late, nil
	return late
}

// DropUnused drops the results of abandoned reads of objects that no pod uses.
func (r *Reader) DropUnused(isUsed func(Ref) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref, in := range r.pending {
		if in.done && !isUsed(ref) {
			delete(r.pending, ref)
		}
	}
	for ref := range r.slow {
		if r.pending[ref] == nil && !isUsed(ref) {
			delete(r.slow, ref)
		}
	}
}

// readInTime reads an object from its source. An error after the timeout is errTimeout, with
// the text of the source's error.
func (r *Reader) readInTime(ctx context.Context, ref Ref) (result object, inTime bool) {
	limited, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	if result = r.readFromSource(limited, ref); result.err != nil && limited.Err() != nil {
		return object{err: fmt.Errorf("%w in %v: %s", errTimeout, r.config.Timeout, result.err.Error())}, false
	}
	return result, true
}

// readFromSource calls the source of an object. A panic is an error.
func (r *Reader) readFromSource(ctx context.Context, ref Ref) (result object) {
	defer plugincall.RecoverPanic(&result.err)
	switch ref.Kind {
	case Pod:
		result.pod, result.err = r.config.Pod(ctx, types.UID(ref.Name))
	case Volume:
		result.volume, result.err = r.config.Claims.GetPersistentVolume(ctx, ref.Name)
	case Claim:
		result.claim, result.err = r.config.Claims.GetPersistentVolumeClaim(ctx, ref.Namespace, ref.Name)
	}
	return result
}
