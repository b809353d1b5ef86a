package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// An AttachmentReader reads the attachments of one node for a plugin of CSI volumes.
// [VolumeAttachments] is one. A volume is named by its driver and its volume handle.
type AttachmentReader interface {
	// WaitForAttachment waits until the volume is attached, and returns the publish context for
	// its driver, which may be empty. An error that the driver reports ends the wait once.
	WaitForAttachment(ctx context.Context, driver, handle string) (metadata map[string]string, err error)
	// IsAttached returns the last known state of a volume that WaitForAttachment has returned, or
	// waits for; known is false for other volumes.
	IsAttached(driver, handle string) (attached, known bool)
	// ReleaseAttachment ends the interest in a volume, also in one for which all waits have failed.
	// A plugin calls it in ReleaseAttached of [AttachmentReleaser].
	ReleaseAttachment(driver, handle string)
}

// VolumeAttachmentName returns the name of the VolumeAttachment of a CSI volume on a node: csi-,
// and the SHA-256 of handle, driver and node in hexadecimal digits.
func VolumeAttachmentName(driver, handle string, node types.NodeName) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+string(node))))
}

// VolumeAttachmentsConfig configures [VolumeAttachments]. Cluster and Node are required.
type VolumeAttachmentsConfig struct {
	Cluster api.VolumeAttachmentsGetter
	// Node is the name of this node.
	Node types.NodeName
	// Logger receives failed lists and watches, which are retried. Nil: discarded.
	Logger *slog.Logger
}

// VolumeAttachments reads the VolumeAttachments of CSI volumes on one node. It watches an object by
// its name from the first wait for it until its release, and no other object. Its methods are safe
// for concurrent use.
type VolumeAttachments struct {
	config VolumeAttachmentsConfig

	watches *watchGroup

	mu      sync.Mutex // guards all below
	watched map[string]*watchedAttachment
	// failed has the last errors of drivers that waits have returned, by the names of the objects,
	// until the volume is attached or released.
	failed map[string]*storagev1.VolumeError
}

// A watchedAttachment is a VolumeAttachment that is waited for or used.
type watchedAttachment struct {
	*api.ObjectWatch[*storagev1.VolumeAttachment]
	stop    func()
	changed chan struct{} // closed and replaced after each change
	waiters int
	isUsed  bool
}

var _ AttachmentReader = (*VolumeAttachments)(nil)

// NewVolumeAttachments returns a reader of VolumeAttachments. Waits need Run. The error for an
// invalid configuration wraps a *field.Error.
func NewVolumeAttachments(config VolumeAttachmentsConfig) (*VolumeAttachments, error) {
	at := field.NewPath("VolumeAttachmentsConfig")
	switch {
	case config.Cluster == nil:
		return nil, fmt.Errorf("node: %w", field.Required(at.Child("Cluster"), "VolumeAttachments are read from a cluster"))
	case config.Node == "":
		return nil, fmt.Errorf("node: %w", field.Required(at.Child("Node"), "a VolumeAttachment has the name of its node"))
	}
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	return &VolumeAttachments{
		config: config, watches: newWatchGroup(),
		watched: map[string]*watchedAttachment{}, failed: map[string]*storagev1.VolumeError{},
	}, nil
}

// Run watches the VolumeAttachments that are waited for or used until ctx ends; then it returns
// nil, and all watches have ended. A second call returns an error.
func (v *VolumeAttachments) Run(ctx context.Context) error {
	if !v.watches.begin() {
		return errors.New("node: VolumeAttachments runs once")
	}
	v.watches.run(ctx)
	return nil
}

// acquire returns the watch of an object for a waiter; the first waiter starts it.
func (v *VolumeAttachments) acquire(name string) *watchedAttachment {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := v.watched[name]
	if w == nil {
		w = &watchedAttachment{changed: make(chan struct{})}
		w.ObjectWatch = api.NewObjectWatch(v.config.Cluster.VolumeAttachments(), api.ObjectWatchConfig[*storagev1.VolumeAttachment]{
			Key: api.Key{Name: name}, Logger: v.config.Logger,
			Changed: func(api.Change[*storagev1.VolumeAttachment]) {
				v.mu.Lock()
				defer v.mu.Unlock()
				close(w.changed)
				w.changed = make(chan struct{})
			},
		})
		v.watched[name] = w
		w.stop = v.watches.add(func(ctx context.Context) { _ = w.Run(ctx) })
	}
	w.waiters++
	return w
}

// release changes the users of a watch; without any left the watch ends.
func (v *VolumeAttachments) release(name string, change func(*watchedAttachment)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := v.watched[name]
	if w == nil {
		return
	}
	change(w)
	if w.waiters > 0 || w.isUsed {
		return
	}
	w.stop()
	delete(v.watched, name)
}

// WaitForAttachment waits until status.attached of the VolumeAttachment is true and the object is
// not being deleted, and returns a copy of status.attachmentMetadata. The object stays watched
// until ReleaseAttachment; a further wait for it returns at once.
//
// An error in status.attachError ends the wait, also if the driver reported the error before the
// wait: the result is an [*AttachmentError] with the message and the time. The controller then tries
// again, so that a further wait for the volume continues with the same error, and ends with the next
// one, or with the volume attached. If ctx ends first the result is an [*AttachmentError] as well.
// Both are transient. WaitForAttachment also waits for Run and, during an outage, for the API
// server.
func (v *VolumeAttachments) WaitForAttachment(ctx context.Context, driver, handle string) (metadata map[string]string, err error) {
	switch {
	case driver == "":
		return nil, field.Required(field.NewPath("driver"), "a CSI volume has a driver")
	case handle == "":
		return nil, field.Required(field.NewPath("handle"), "a CSI volume has a handle")
	}
	name := VolumeAttachmentName(driver, handle, v.config.Node)
	w := v.acquire(name)
	isAttached := false
	defer v.release(name, func(w *watchedAttachment) {
		w.waiters--
		w.isUsed = w.isUsed || isAttached
	})
	waited := &AttachmentError{Name: name, Driver: driver, Handle: handle, Node: v.config.Node}
	before := v.lastFailure(name)
	for {
		v.mu.Lock()
		changed := w.changed
		v.mu.Unlock()
		object, known := w.Last()
		waited.read(object, known)
		switch {
		case waited.State == "":
			isAttached = true
			v.forgetFailure(name)
			return maps.Clone(object.Status.AttachmentMetadata), nil
		case waited.AttachError != nil && !isSameError(waited.AttachError, before):
			v.recordFailure(name, waited.AttachError)
			waited.Err = ErrAttachFailed
			return nil, waited
		}
		select {
		case <-changed:
		case <-ctx.Done():
			waited.read(w.Last()) // the first list of a missing object reports no change
			waited.Err = context.Cause(ctx)
			return nil, waited
		}
	}
}

// lastFailure returns the last error of the driver that a wait for the object has returned, or nil.
func (v *VolumeAttachments) lastFailure(name string) *storagev1.VolumeError {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.failed[name]
}

func (v *VolumeAttachments) recordFailure(name string, failure *storagev1.VolumeError) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed[name] = failure
}

func (v *VolumeAttachments) forgetFailure(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.failed, name)
}

// IsAttached reports whether the VolumeAttachment is attached by its last known state: an outage of
// the API server changes no result. known is false for a volume that is neither waited for nor used,
// and until the first list of its watch.
func (v *VolumeAttachments) IsAttached(driver, handle string) (attached, known bool) {
	name := VolumeAttachmentName(driver, handle, v.config.Node)
	v.mu.Lock()
	w := v.watched[name]
	v.mu.Unlock()
	if w == nil {
		return false, false
	}
	object, known := w.Last()
	state := &AttachmentError{Driver: driver, Node: v.config.Node}
	state.read(object, known)
	return state.State == "", known
}

// ReleaseAttachment ends the watch of a VolumeAttachment, unless another call waits for it, and
// drops the record of the error that waits have returned. For another object it does nothing.
func (v *VolumeAttachments) ReleaseAttachment(driver, handle string) {
	name := VolumeAttachmentName(driver, handle, v.config.Node)
	v.forgetFailure(name)
	v.release(name, func(w *watchedAttachment) { w.isUsed = false })
}
