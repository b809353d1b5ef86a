package attach

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// callTimeout limits the creation of a VolumeAttachment.
	callTimeout = 30 * time.Second
	// holderAge is the age up to which a holder covers the begin of a call.
	holderAge = 30 * time.Second
	// callMargin is the time after the end of a call within which it takes effect at the API server.
	callMargin = time.Minute
)

// A holder is the value of the HolderAnnotation. Others can edit it: a value that cannot be read is no
// holder.
type holder struct {
	Nodes []types.NodeName `json:"nodes"`
	// Run names the controller that attaches, and At is the time of its last attach. Its calls may take
	// effect until Until, and those of earlier runs until Open.
	Run   string    `json:"run"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
	Open  time.Time `json:"open,omitzero"`
}

// mostOpen is the time ahead that a holder can have: a later one is no time of this cluster.
const mostOpen = time.Hour

// mostTimeout is the longest Config.Timeout whose calls end within mostOpen.
const mostTimeout = 55 * time.Minute

// holderOf returns the holder of a volume.
func holderOf(pv *v1.PersistentVolume) (h holder) {
	value, ok := pv.Annotations[HolderAnnotation]
	if !ok || json.Unmarshal([]byte(value), &h) != nil {
		return holder{}
	}
	return h
}

// openUntil returns the time until which calls of other runs may take effect.
func (h holder) openUntil(run string, now time.Time) time.Time {
	open := h.Open
	if h.Run != run && h.Until.After(open) {
		open = h.Until
	}
	if open.After(now.Add(mostOpen)) {
		return time.Time{}
	}
	return open
}

// mark identifies the holder: each attach has another one.
func (h holder) mark() string { return h.Run + " " + h.At.String() }

// covers reports whether the holder permits the begin of a call for a node.
func (h holder) covers(node types.NodeName, run string, now time.Time) bool {
	return h.Run == run && slices.Contains(h.Nodes, node) && now.Sub(h.At) < holderAge
}

// A hold is a number of attaches that a holder has to cover.
type hold struct {
	nodes       []types.NodeName
	isExclusive bool // the holder has one node
	run         string
	now         time.Time
	longest     time.Duration // of a call
}

// with returns a holder for the nodes of h and more.
func (h holder) with(next hold) holder {
	result := holder{
		Nodes: slices.Clone(next.nodes), Run: next.run, At: next.now.UTC(),
		Until: next.now.Add(holderAge + next.longest + callMargin).UTC(), Open: h.openUntil(next.run, next.now),
	}
	if !result.Open.After(next.now) {
		result.Open = time.Time{}
	}
	if !next.isExclusive {
		result.Nodes = append(result.Nodes, h.without(next.nodes).Nodes...)
		slices.Sort(result.Nodes)
	}
	return result
}

// without returns the holder without nodes.
func (h holder) without(nodes []types.NodeName) holder {
	isOut := map[types.NodeName]bool{}
	for _, name := range nodes {
		isOut[name] = true
	}
	h.Nodes = slices.DeleteFunc(slices.Clone(h.Nodes), func(name types.NodeName) bool { return isOut[name] })
	return h
}

// hold makes the holder of a volume cover the begin of calls for nodes, and returns the volume. The write names
// the version of the volume in which no other run holds it, so that of two controllers one attaches. The
// holder loses the nodes that the volume has left.
func (c *Controller) hold(ctx context.Context, v *volumeView, pv *v1.PersistentVolume, nodes, left []types.NodeName) (*v1.PersistentVolume, error) {
	h, now := holderOf(pv), time.Now()
	isCovered := func(name types.NodeName) bool {
		return h.covers(name, c.run, now) && (!v.isExclusive || len(h.Nodes) == 1)
	}
	next := h.without(left)
	if !allOf(nodes, isCovered) {
		longest := c.config.Timeout
		if v.isCSI {
			longest = callTimeout
		}
		c.plugged.doubt(v.id, h, c.run, now)
		next = next.with(hold{nodes: nodes, isExclusive: v.isExclusive, run: c.run, now: now, longest: longest})
	} else if len(next.Nodes) == len(h.Nodes) {
		return pv, nil
	}
	written, err := c.writeHolder(ctx, pv, next)
	if err != nil {
		return nil, err
	}
	now = time.Now()
	if h = holderOf(written); !allOf(nodes, isCovered) {
		return nil, fmt.Errorf("hold volume %q: the write took longer than %v", pv.Name, holderAge)
	}
	return written, nil
}

func allOf(nodes []types.NodeName, is func(types.NodeName) bool) bool {
	return !slices.ContainsFunc(nodes, func(name types.NodeName) bool { return !is(name) })
}

// holdForPlugin writes the holders for the steps of a turn, with one write of each persistent volume: the calls
// of a plugin begin together, and writes for each node would be conflicts.
func (c *Controller) holdForPlugin(ctx context.Context, v *volumeView, steps []step) error {
	if v.isCSI {
		return nil
	}
	left := nodesOf(steps, stepRelease)
	for i, pv := range v.sources {
		isOf := func(name types.NodeName) bool { return v.pvs[name] != nil && v.pvs[name].Name == pv.Name }
		nodes := slices.DeleteFunc(nodesOf(steps, stepAttach), func(name types.NodeName) bool { return !isOf(name) })
		written, err := c.hold(ctx, v, pv, nodes, left)
		if err != nil {
			return err
		}
		v.sources[i] = written
	}
	for _, name := range left {
		c.plugged.forget(v.id, name)
	}
	return nil
}

// writeHolder writes the holder of a volume, in the given version alone, and returns the volume.
func (c *Controller) writeHolder(ctx context.Context, pv *v1.PersistentVolume, h holder) (written *v1.PersistentVolume, err error) {
	patch := objectpatch.Of(pv).OfVersion(pv)
	if len(h.Nodes) == 0 {
		patch = patch.WithoutAnnotation(HolderAnnotation)
	} else {
		value, err := json.Marshal(h)
		if err != nil {
			return nil, err
		}
		patch = patch.WithAnnotation(HolderAnnotation, string(value))
	}
	data, err := patch.Encode()
	if err == nil {
		written, err = c.volumes.Patch(ctx, api.KeyOf(pv), types.StrategicMergePatchType, data)
	}
	if err != nil {
		return nil, fmt.Errorf("patch volume %q: %w", pv.Name, err)
	}
	return written, nil
}
