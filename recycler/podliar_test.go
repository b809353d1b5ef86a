package recycler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/recycler/recyclertest"
)

// A lyingClient returns other pods than the requested ones.
type lyingClient struct {
	*recyclertest.Cluster
	create func(c *recyclertest.Cluster, asked *v1.Pod) (*v1.Pod, error)
	told   *v1.Pod // the pod in its watches' updates, but for the names
}

func (l lyingClient) Create(ctx context.Context, asked *v1.Pod) (*v1.Pod, error) {
	if l.create == nil {
		return l.Cluster.Create(ctx, asked)
	}
	return l.create(l.Cluster, asked)
}

func (l lyingClient) Watch(ctx context.Context, asked *v1.Pod) (recycler.PodWatch, error) {
	if l.told == nil {
		return l.Cluster.Watch(ctx, asked)
	}
	pod := asked.DeepCopy()
	pod.UID, pod.Status = l.told.UID, l.told.Status
	return &once{update: recycler.PodUpdate{Pod: pod}}, nil
}

// once is a watch with one update.
type once struct {
	update recycler.PodUpdate
	told   bool
}

func (o *once) Stop() {}

func (o *once) Next(ctx context.Context) (recycler.PodUpdate, error) {
	if !o.told {
		o.told = true
		return o.update, nil
	}
	<-ctx.Done()
	return recycler.PodUpdate{}, ctx.Err()
}

func TestPodIsIdentifiedByUID(t *testing.T) {
	succeeded := &v1.Pod{Status: v1.PodStatus{Phase: v1.PodSucceeded}}
	succeeded.UID = "another"
	tests := map[string]struct {
		lyingClient
		want error
	}{
		"another pod is answered": {lyingClient{create: func(c *recyclertest.Cluster, asked *v1.Pod) (*v1.Pod, error) {
			asked.Annotations[recycler.RunAnnotation] = "another"
			asked.Status = succeeded.Status
			return c.Put(asked), nil
		}}, recycler.ErrPodForeign},
		"no pod is answered": {lyingClient{create: func(*recyclertest.Cluster, *v1.Pod) (*v1.Pod, error) {
			return nil, nil
		}}, recycler.ErrPodAPI},
		"the labels are lost": {lyingClient{create: func(c *recyclertest.Cluster, asked *v1.Pod) (*v1.Pod, error) {
			asked.Labels = nil
			return c.Create(t.Context(), asked)
		}}, recycler.ErrPodAltered},
		"the watch tells of another": {lyingClient{told: succeeded}, recycler.ErrPodFailed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.Cluster = recyclertest.NewCluster(recyclertest.Config{Fate: func(*v1.Pod) fate {
					return fate{Run: time.Minute, Phase: v1.PodFailed}
				}})
				pv := nfsVolume("pv")
				err := newPods(t, recycler.PodConfig{Client: test.lyingClient}).Recycle(t.Context(), "pv", specOf(pv))
				require.ErrorIs(t, err, test.want)
				for _, pod := range test.Pods() {
					require.Equal(t, "another", pod.Annotations[recycler.RunAnnotation])
				}
			})
		})
	}
}
