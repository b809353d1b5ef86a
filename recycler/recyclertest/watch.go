package recyclertest

import (
	"context"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/recycler"
)

// manyUpdates is the number of unread updates at which a watch expires.
const manyUpdates = 100

type watch struct {
	cluster *Cluster
	pod     types.NamespacedName
	ended   <-chan struct{} // of the context of Watch
	updates chan recycler.PodUpdate
}

// Watch implements recycler.PodClient.
func (c *Cluster) Watch(ctx context.Context, asked *v1.Pod) (recycler.PodWatch, error) {
	w := &watch{cluster: c, pod: key(asked), ended: ctx.Done(), updates: make(chan recycler.PodUpdate, manyUpdates)}
	if err := c.call(ctx, Call{Op: Watch, Pod: asked.DeepCopy()}, func() error { return nil }); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches[w] = struct{}{}
	if p := c.pods[w.pod]; p != nil {
		w.sendState(p)
	}
	return w, nil
}

// sendState reports the state of a pod before the watch.
func (w *watch) sendState(p *pod) {
	w.updates <- recycler.PodUpdate{Pod: p.now.DeepCopy()}
	for _, event := range p.events[max(0, len(p.events)-manyUpdates/2):] {
		w.updates <- recycler.PodUpdate{Event: event.DeepCopy()}
	}
}

// Next implements recycler.PodWatch. A watch with too many unread updates has expired.
func (w *watch) Next(ctx context.Context) (update recycler.PodUpdate, err error) {
	asked := &v1.Pod{}
	asked.Namespace, asked.Name = w.pod.Namespace, w.pod.Name
	err = w.cluster.call(ctx, Call{Op: Next, Pod: asked}, func() error {
		var open bool
		select {
		case update, open = <-w.updates:
		case <-ctx.Done():
			return ctx.Err()
		case <-w.ended:
			return io.EOF
		}
		if !open {
			return apierrors.NewResourceExpired("too far behind")
		}
		return nil
	})
	return update, err
}

// Stop implements recycler.PodWatch.
func (w *watch) Stop() {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	delete(w.cluster.watches, w)
}

// Emit adds an event about a pod and reports it to the pod's watches. If the pod does not
// exist the event is dropped.
func (c *Cluster) Emit(namespace, name string, event *v1.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pods[types.NamespacedName{Namespace: namespace, Name: name}]; p != nil {
		c.emit(p, event.DeepCopy())
	}
}

func (c *Cluster) emit(p *pod, event *v1.Event) {
	p.events = append(p.events, event)
	c.send(key(p.now), recycler.PodUpdate{Event: event.DeepCopy()})
}

// started is the event of a pod that runs.
func (c *Cluster) started(p *v1.Pod) *v1.Event {
	c.uids++
	event := &v1.Event{Type: v1.EventTypeNormal, Reason: "Started", Message: "Started container", Count: 1}
	event.UID = types.UID(fmt.Sprintf("event-%d", c.uids))
	event.InvolvedObject = v1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
	return event
}

func (c *Cluster) reportState(p *v1.Pod) {
	c.send(key(p), recycler.PodUpdate{Pod: p.DeepCopy()})
}

func (c *Cluster) reportDeletion(p *v1.Pod) {
	c.send(key(p), recycler.PodUpdate{Pod: p.DeepCopy(), Deleted: true})
}

func (c *Cluster) send(pod types.NamespacedName, update recycler.PodUpdate) {
	for w := range c.watches {
		if w.pod != pod {
			continue
		}
		select {
		case w.updates <- update:
		default:
			close(w.updates)
			delete(c.watches, w)
		}
	}
}
