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

// A cluster is a cluster in memory that prints its pods.
type cluster struct {
	progressPrinter
	*recyclertest.Cluster
	fate recyclertest.Fate
	pv   *v1.PersistentVolume
}

func newCluster(t progressPrinter, files int, fate recyclertest.Fate) *cluster {
	c := &cluster{progressPrinter: t, fate: fate}
	c.pv = &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-a", UID: "1"}}
	c.pv.Spec.NFS = &v1.NFSVolumeSource{Server: "nfs.example", Path: "/exports/a"}
	c.Cluster = recyclertest.NewCluster(recyclertest.Config{Fate: c.created})
	for i := range files {
		c.Fill(v1.VolumeSource{NFS: c.pv.Spec.NFS}, fmt.Sprint(i))
	}
	return c
}

// created prints a new pod, and returns its fate.
func (c *cluster) created(pod *v1.Pod) recyclertest.Fate {
	nfs, container := pod.Spec.Volumes[0].NFS, pod.Spec.Containers[0]
	c.printf("Pod %s/%s mounts %s:%s", pod.Namespace, pod.Name, nfs.Server, nfs.Path)
	c.printf("  and runs: %s", strings.Join(append(container.Command, container.Args...), " "))
	return c.fate
}

func (c *cluster) event(e recycler.Event) { c.printf("  %s %s: %s", e.Type, e.Reason, e.Message) }

// recycle returns the number of files left in the volume.
func (c *cluster) recycle(ctx context.Context) (files int, err error) {
	pods, err := recycler.NewPod(recycler.PodConfig{Client: c, Recorder: c.event})
	if err != nil {
		return 0, err
	}
	err = pods.Recycle(ctx, c.pv.Name, volume.NewSpecFromPersistentVolume(c.pv, false))
	files = len(c.Files(v1.VolumeSource{NFS: c.pv.Spec.NFS}))
	return files, errors.Join(err, errorUnless(len(c.Pods()) == 0, "a pod is left"))
}

func byPod(ctx context.Context, t progressPrinter, files int) error {
	t.printf("A pod that may do its work:")
	left, err := newCluster(t, files, recyclertest.Fate{}).recycle(ctx)
	if err = errors.Join(err, errorUnless(left == 0, "not empty")); err != nil {
		return err
	}
	t.printf("Recycled: the volume is empty, and no pod is left.\n\nA pod that is deleted at work:")
	left, err = newCluster(t, files, recyclertest.Fate{Vanish: true}).recycle(ctx)
	failed := (*recycler.PodError)(nil)
	if !errors.As(err, &failed) || !errors.Is(err, recycler.ErrPodDeleted) {
		return errors.Join(errors.New("expected ErrPodDeleted"), err)
	}
	t.printf("Not recycled: a %T that wraps ErrPodDeleted (%v)", failed, failed.Err)
	t.printf("%d files are in the volume, and no pod is left.", left)
	return nil
}
