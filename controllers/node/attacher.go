package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// AttacherConfig configures an [Attacher]. Either Source is required, or Cluster and Node are.
type AttacherConfig struct {
	// Source is the source of the same manager: the Attacher has its Cluster and Node, and shares
	// its watch of the node, so that the Attacher needs Source.Run.
	Source *Source
	// Cluster and Node, the name of this node, are for an Attacher without a Source, which watches
	// the node by itself.
	Cluster api.NodesGetter
	Node    types.NodeName
	// Logger receives failed calls of the API server, which are retried. Nil: the Logger of the
	// Source; without a Source they are discarded.
	Logger *slog.Logger
}

func (c *AttacherConfig) check() error {
	at := field.NewPath("AttacherConfig")
	switch {
	case c.Source != nil && c.Cluster != nil:
		return field.Forbidden(at.Child("Cluster"), "an attacher with a Source has its Cluster")
	case c.Source != nil && c.Node != "":
		return field.Forbidden(at.Child("Node"), "an attacher with a Source has its Node")
	case c.Source != nil:
		c.Cluster, c.Node = c.Source.config.Cluster, c.Source.config.Node
		c.Logger = cmp.Or(c.Logger, c.Source.config.Logger)
		return nil
	case c.Cluster == nil:
		return field.Required(at.Child("Cluster"), "an attacher reads the node from a cluster")
	case c.Node == "":
		return field.Required(at.Child("Node"), "an attacher attaches to one node")
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return nil
}

// An Attacher is the node's side of attaching by a controller. It reports the volumes in use in
// node.status.volumesInUse, and waits until the controller has attached a volume, as
// node.status.volumesAttached shows. Set it as manager.Config.Attacher, with
// manager.Config.ReportFirst, and call Run with the manager. Its methods are safe for concurrent
// use.
type Attacher struct {
	config AttacherConfig
	follow func(ctx context.Context) // watches the node until ctx ends
	poked  chan struct{}             // wakes Run; length 1

	mu      sync.Mutex // guards all below; never held during a call of the API server
	ran     bool
	status  nodeStatus
	changed chan struct{} // closed and replaced after each change of status
}

var _ manager.AttachmentVerifier = (*Attacher)(nil)

// An AttachmentReleaser is a plugin that keeps state for each volume that a controller has attached,
// such as the watch of an [AttachmentReader], from the first WaitForAttach until the node has given up
// the volume. [Attacher.Detach] calls it.
type AttachmentReleaser interface {
	// ReleaseAttached ends the state of a volume, also of one for which each WaitForAttach has
	// failed, and of one without a WaitForAttach in this run of the program. volumeName is the result
	// of GetVolumeName. No WaitForAttach for the volume is in progress, and a later one begins again.
	// ReleaseAttached must not block.
	ReleaseAttached(volumeName string)
}

// NewAttacher returns an Attacher. Attach waits at least until Run has read the node. The error for
// an invalid configuration wraps a *field.Error.
func NewAttacher(config AttacherConfig) (*Attacher, error) {
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	a := &Attacher{config: config, poked: make(chan struct{}, 1), changed: make(chan struct{})}
	if config.Source != nil {
		a.follow = func(ctx context.Context) { config.Source.followNode(ctx, a.nodeChanged) }
		return a, nil
	}
	watch := api.NewObjectWatch(config.Cluster.Nodes(), api.ObjectWatchConfig[*v1.Node]{
		Key: api.Key{Name: string(config.Node)}, Changed: a.nodeChanged, Logger: config.Logger,
	})
	a.follow = func(ctx context.Context) { _ = watch.Run(ctx) }
	return a, nil
}

// nodeChanged records a change of the node.
func (a *Attacher) nodeChanged(change api.Change[*v1.Node]) {
	a.update(func(s *nodeStatus) { s.observe(change) })
	a.poke()
}

// update changes the status and wakes the waiters.
func (a *Attacher) update(change func(*nodeStatus)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.status)
	close(a.changed)
	a.changed = make(chan struct{})
}

// poke wakes Run.
func (a *Attacher) poke() {
	select {
	case a.poked <- struct{}{}:
	default:
	}
}

// Attach waits until node.status.volumesInUse and node.status.volumesAttached both name the volume,
// and returns the device path of volumesAttached; a plugin that attaches volumes then waits for the
// device (WaitForAttach) and returns its path. Attach is idempotent and does not call the API server.
// If ctx ends first, the error is transient and names the missing condition. An invalid device path in
// volumesAttached, such as one with control characters, is a transient error that wraps a
// *field.Error. An outage of the API server delays Attach.
func (a *Attacher) Attach(ctx context.Context, at manager.Attachment) (devicePath string, err error) {
	plugin, ok := volume.As[volume.AttachableVolumePlugin](at.Plugin)
	devicePath, err = a.waitForController(ctx, at)
	if err == nil && !ok && devicePath != "" && !path.IsAbs(devicePath) {
		err = volume.AsTransient(invalidDevicePath(devicePath, "must be absolute for a plugin without WaitForAttach"))
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("attach volume %q to node %q: %w", brief.Name(string(at.Volume)), a.config.Node, err)
	case !ok:
		return devicePath, nil
	}
	attacher, err := plugin.NewAttacher()
	if err != nil {
		return "", err
	}
	devicePath, err = attacher.WaitForAttach(ctx, at.Spec, devicePath, at.Pod)
	if err != nil {
		return "", volume.AsUncertain(fmt.Errorf("attached, and waiting for its device: %w", err))
	}
	return devicePath, nil
}

// waitForController waits until the controller has attached the volume.
func (a *Attacher) waitForController(ctx context.Context, at manager.Attachment) (devicePath string, err error) {
	if at.Node != a.config.Node {
		return "", fmt.Errorf("the request is for node %q", at.Node)
	}
	for {
		a.mu.Lock()
		devicePath, missing := a.status.devicePath(at.Volume)
		changed := a.changed
		a.mu.Unlock()
		switch {
		case missing == nil:
			return devicePath, nil
		case errors.As(missing, new(*field.Error)):
			return "", volume.AsTransient(missing)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", volume.AsTransient(fmt.Errorf("%w: %w", missing, context.Cause(ctx)))
		}
	}
}

// Detach calls ReleaseAttached of a plugin that is an [AttachmentReleaser], and returns nil. The
// controller detaches the volume after node.status.volumesInUse no longer names it, which Run writes.
// Until then a new Attach finds the volume attached. Detach is idempotent and does not call the API
// server.
func (a *Attacher) Detach(_ context.Context, at manager.Attachment) error {
	if plugin, ok := volume.As[AttachmentReleaser](at.Plugin); ok {
		plugin.ReleaseAttached(at.Name)
	}
	return nil
}

// VolumesAreAttached implements manager.AttachmentVerifier by the last known state of
// node.status.volumesAttached, and does not call the API server. An outage keeps that state. While
// the Node object is missing the result is empty, so that no volume counts as detached.
func (a *Attacher) VolumesAreAttached(_ context.Context, attachments []manager.Attachment) (map[v1.UniqueVolumeName]bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	attached := map[v1.UniqueVolumeName]bool{}
	if a.status.node == nil {
		return attached, nil
	}
	for _, at := range attachments {
		_, attached[at.Volume] = a.status.findAttached(at.Volume)
	}
	return attached, nil
}
