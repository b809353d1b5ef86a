package recyclertest

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Fate is the course of a pod.
type Fate struct {
	Start time.Duration // until it runs
	Run   time.Duration // from then until it ends; 0: a second
	// Phase is the phase in which it ends without having scrubbed. Empty: it scrubs and succeeds.
	Phase           v1.PodPhase
	Reason, Message string // of the ended pod

	Waiting string // the reason for which its containers wait forever; excludes the fields above
	Never   bool   // it stays pending; excludes the fields above
	Vanish  bool   // it is deleted instead of ending
	Stay    bool   // its deletion never completes
}

type pod struct {
	now    *v1.Pod // replaced, never changed
	fate   Fate
	timer  *time.Timer
	events []*v1.Event // never changed
}

func key(p *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

func (c *Cluster) create(asked *v1.Pod) (*v1.Pod, error) {
	fate := Fate{}
	if c.config.Fate != nil {
		fate = c.config.Fate(asked.DeepCopy())
	}
	if fate.Run == 0 {
		fate.Run = time.Second
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods[key(asked)] != nil {
		return nil, apierrors.NewAlreadyExists(resource, asked.Name)
	}
	p := c.add(asked)
	p.fate = fate
	c.startPod(p)
	return p.now.DeepCopy(), nil
}

// Put adds a copy of a pod with a new UID and returns it. Its state never changes. It
// replaces a pod of the same name.
func (c *Cluster) Put(given *v1.Pod) *v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.pods[key(given)]; old != nil {
		c.remove(old)
	}
	return c.add(given).now.DeepCopy()
}

// Alter changes a pod. If the pod does not exist it does nothing.
func (c *Cluster) Alter(namespace, name string, how func(*v1.Pod)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pods[types.NamespacedName{Namespace: namespace, Name: name}]; p != nil {
		c.change(p, how)
	}
}

// Remove removes a pod without a trace.
func (c *Cluster) Remove(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pods[types.NamespacedName{Namespace: namespace, Name: name}]; p != nil {
		c.remove(p)
	}
}

func (c *Cluster) add(given *v1.Pod) *pod {
	c.uids++
	p := &pod{now: given.DeepCopy()}
	p.now.UID = types.UID(fmt.Sprintf("pod-%d", c.uids))
	p.now.CreationTimestamp = metav1.Now()
	setPhase(p.now)
	c.pods[key(p.now)] = p
	c.reportState(p.now)
	return p
}

func setPhase(p *v1.Pod) {
	if p.Status.Phase == "" {
		p.Status.Phase = v1.PodPending
	}
}

// startPod starts the phases of a pod.
func (c *Cluster) startPod(p *pod) {
	switch fate := p.fate; {
	case fate.Waiting != "":
		c.change(p, func(now *v1.Pod) {
			now.Status.ContainerStatuses = []v1.ContainerStatus{{
				Name:  now.Spec.Containers[0].Name,
				State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: fate.Waiting}},
			}}
		})
	case fate.Never:
	default:
		c.schedule(p, fate.Start, c.start)
	}
}

// schedule calls do with a pod after d, unless the pod is being deleted by then.
func (c *Cluster) schedule(p *pod, d time.Duration, do func(*pod)) {
	p.timer = time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.pods[key(p.now)] == p && p.now.DeletionTimestamp == nil {
			do(p)
		}
	})
}

func (c *Cluster) start(p *pod) {
	c.change(p, func(now *v1.Pod) { now.Status.Phase = v1.PodRunning })
	c.emit(p, c.started(p.now))
	deadline := p.now.Spec.ActiveDeadlineSeconds
	if deadline != nil && p.fate.Run > time.Duration(*deadline)*time.Second {
		c.schedule(p, time.Duration(*deadline)*time.Second, c.overrun)
		return
	}
	c.schedule(p, p.fate.Run, c.end)
}

func (c *Cluster) overrun(p *pod) {
	c.change(p, func(now *v1.Pod) {
		now.Status.Phase, now.Status.Reason = v1.PodFailed, "DeadlineExceeded"
	})
}

func (c *Cluster) end(p *pod) {
	if p.fate.Vanish {
		c.remove(p)
		return
	}
	phase := p.fate.Phase
	if phase == "" {
		phase = v1.PodSucceeded
		c.scrub(p)
	}
	c.change(p, func(now *v1.Pod) {
		now.Status.Phase, now.Status.Reason, now.Status.Message = phase, p.fate.Reason, p.fate.Message
	})
}

func (c *Cluster) scrub(p *pod) {
	if len(p.now.Spec.Volumes) == 0 {
		return
	}
	f := c.files(p.now.Spec.Volumes[0].VolumeSource)
	f.names = nil
	f.scrubs = append(f.scrubs, *p.now.DeepCopy())
}

func (c *Cluster) change(p *pod, how func(now *v1.Pod)) {
	next := p.now.DeepCopy()
	how(next)
	p.now = next
	c.reportState(p.now)
}

// delete lets a pod end first if it runs.
func (c *Cluster) delete(p *pod) {
	ended := p.now.Status.Phase == v1.PodSucceeded || p.now.Status.Phase == v1.PodFailed
	switch {
	case p.now.DeletionTimestamp != nil:
		return
	case ended && !p.fate.Stay:
		c.remove(p)
		return
	}
	c.change(p, func(now *v1.Pod) { now.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
	if p.fate.Stay {
		return
	}
	p.timer = time.AfterFunc(c.config.Grace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.pods[key(p.now)] == p {
			c.remove(p)
		}
	})
}

func (c *Cluster) remove(p *pod) {
	if p.timer != nil {
		p.timer.Stop()
	}
	delete(c.pods, key(p.now))
	c.reportDeletion(p.now)
}
