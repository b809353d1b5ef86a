package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/recycler/recyclertest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A cluster is in memory, and shows its pods.
type cluster struct {
	teller
	*recyclertest.Cluster
	fate recyclertest.Fate
	pv   *v1.PersistentVolume
}

func newCluster(t teller, files int, fate recyclertest.Fate) *cluster {
	c := &cluster{teller: t, fate: fate}
	c.pv = &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-a", UID: "1"}}
	c.pv.Spec.NFS = &v1.NFSVolumeSource{Server: "nfs.example", Path: "/exports/a"}
	c.Cluster = recyclertest.NewCluster(recyclertest.Config{Fate: c.created})
	for i := range files {
		c.Fill(v1.VolumeSource{NFS: c.pv.Spec.NFS}, fmt.Sprint(i))
	}
	return c
}

// created is asked what becomes of a new pod.
func (c *cluster) created(pod *v1.Pod) recyclertest.Fate {
	nfs, container := pod.Spec.Volumes[0].NFS, pod.Spec.Containers[0]
	c.say("Pod %s/%s mounts %s:%s", pod.Namespace, pod.Name, nfs.Server, nfs.Path)
	c.say("  and runs: %s", strings.Join(append(container.Command, container.Args...), " "))
	return c.fate
}

func (c *cluster) event(e recycler.Event) { c.say("  %s %s: %s", e.Type, e.Reason, e.Message) }

// recycle returns how many files are in the volume then, too.
func (c *cluster) recycle(ctx context.Context) (files int, err error) {
	pods, err := recycler.NewPod(recycler.PodConfig{Client: c, Recorder: c.event})
	if err != nil {
		return 0, err
	}
	err = pods.Recycle(ctx, c.pv.Name, volume.NewSpecFromPersistentVolume(c.pv, false))
	files = len(c.Files(v1.VolumeSource{NFS: c.pv.Spec.NFS}))
	return files, errors.Join(err, unless(len(c.Pods()) == 0, "a pod is left"))
}

func byPod(ctx context.Context, t teller, files int) error {
	t.say("A pod that may do its work:")
	left, err := newCluster(t, files, recyclertest.Fate{}).recycle(ctx)
	if err = errors.Join(err, unless(left == 0, "not empty")); err != nil {
		return err
	}
	t.say("Recycled: the volume is empty, and no pod is left.\n\nA pod that somebody deletes:")
	left, err = newCluster(t, files, recyclertest.Fate{Vanish: true}).recycle(ctx)
	failed := (*recycler.PodError)(nil)
	if !errors.As(err, &failed) || !errors.Is(err, recycler.ErrPodDeleted) {
		return errors.Join(errors.New("expected ErrPodDeleted"), err)
	}
	t.say("Not recycled: a %T that wraps ErrPodDeleted (%v)", failed, failed.Err)
	t.say("%d files are in the volume, and no pod is left.", left)
	return nil
}
