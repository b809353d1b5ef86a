package recycler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/recycler/recyclertest"
	"github.com/volumekit/volumekit/volume"
)

type (
	fate  = recyclertest.Fate
	fault = recyclertest.Fault
)

// An outcome is a recycle in a cluster with its expected result.
type outcome struct {
	name   string
	fate   fate
	faults map[recyclertest.Op]fault // of every such call, or of the first ones
	first  int                       // how many; 0: all
	meddle func(c *recyclertest.Cluster, pod *v1.Pod)
	cancel time.Duration // after which the context is cancelled; 0: never

	want   error // nil: recycled
	kind   volume.ErrorKind
	atMost time.Duration // of virtual time; 0: 30 s
}

var outcomes = []outcome{
	{name: "succeeds"},

	{name: "watch closed", faults: map[recyclertest.Op]fault{recyclertest.Next: {Err: io.EOF}}},
	{name: "watch error", faults: map[recyclertest.Op]fault{recyclertest.Next: {Err: apierrors.NewInternalError(io.EOF)}}},
	{name: "watch expired", faults: map[recyclertest.Op]fault{recyclertest.Next: {Err: apierrors.NewResourceExpired("compacted")}}},
	{name: "watch gone at once", faults: map[recyclertest.Op]fault{recyclertest.Watch: {Err: apierrors.NewResourceExpired("compacted")}}},
	{name: "watch forbidden", faults: map[recyclertest.Op]fault{recyclertest.Watch: {Err: apierrors.NewForbidden(pods, "", io.EOF)}}},
	{name: "watch silent", faults: map[recyclertest.Op]fault{recyclertest.Next: {Hang: true}}},
	{name: "watch hangs", faults: map[recyclertest.Op]fault{recyclertest.Watch: {Hang: true}}, atMost: time.Minute},

	{name: "fails", fate: fate{Phase: v1.PodFailed}, want: recycler.ErrPodFailed, kind: volume.Final},
	{name: "evicted", fate: fate{Phase: v1.PodFailed, Reason: "Evicted"}, want: recycler.ErrPodEvicted, kind: volume.Transient},
	{name: "vanishes", fate: fate{Vanish: true}, want: recycler.ErrPodDeleted, kind: volume.Transient},
	{name: "past its deadline", fate: fate{Run: time.Hour}, want: recycler.ErrPodTimeout, kind: volume.Transient, atMost: 6 * time.Minute},
	{name: "never starts", fate: fate{Never: true}, want: recycler.ErrPodTimeout, kind: volume.Transient, atMost: 11 * time.Minute},
	{name: "image pull fails", fate: fate{Waiting: "ErrImagePull"}, want: recycler.ErrPodImage, kind: volume.Transient, atMost: 3 * time.Minute},
	{name: "image pull backs off", fate: fate{Waiting: "ImagePullBackOff"}, want: recycler.ErrPodImage, kind: volume.Transient, atMost: 3 * time.Minute},
	{name: "image has no good name", fate: fate{Waiting: "InvalidImageName"}, want: recycler.ErrPodImage, kind: volume.Final},
	{name: "context ends", fate: fate{Never: true}, cancel: time.Second, want: context.Canceled, kind: volume.Uncertain},

	{name: "replaced", fate: fate{Run: 5 * time.Second}, meddle: replaceByForeignPod, want: recycler.ErrPodDeleted, kind: volume.Transient},
	{name: "replaced by its like", fate: fate{Run: 5 * time.Second}, meddle: putSecondPod, want: recycler.ErrPodDeleted, kind: volume.Transient},
	{name: "deleted while it runs", fate: fate{Run: 5 * time.Second}, meddle: removePod, want: recycler.ErrPodDeleted, kind: volume.Transient},
	{name: "other volume", meddle: alterPod(func(pod *v1.Pod) { pod.Spec.Volumes[0].NFS.Path = "/other" }), want: recycler.ErrPodAltered, kind: volume.Final},
	{name: "other command", meddle: alterPod(func(pod *v1.Pod) { pod.Spec.Containers[0].Command = []string{"true"} }), want: recycler.ErrPodAltered, kind: volume.Final},
	{name: "other mount", meddle: alterPod(func(pod *v1.Pod) { pod.Spec.Containers[0].VolumeMounts[0].SubPath = "in" }), want: recycler.ErrPodAltered, kind: volume.Final},

	{name: "create forbidden", faults: map[recyclertest.Op]fault{recyclertest.Create: {Err: apierrors.NewForbidden(pods, "", io.EOF)}}, want: recycler.ErrPodAPI, kind: volume.Final},
	{name: "create conflicts", faults: map[recyclertest.Op]fault{recyclertest.Create: {Err: apierrors.NewConflict(pods, "", io.EOF)}}, want: recycler.ErrPodAPI, kind: volume.Transient},
	{name: "create conflicts once", faults: map[recyclertest.Op]fault{recyclertest.Create: {Err: apierrors.NewConflict(pods, "", io.EOF)}}, first: 1},
	{name: "create exists, it says", faults: map[recyclertest.Op]fault{recyclertest.Create: {Err: apierrors.NewAlreadyExists(pods, "")}}, want: recycler.ErrPodAPI, kind: volume.Transient},
	{name: "create succeeds, but error", faults: map[recyclertest.Op]fault{recyclertest.Create: {Err: io.EOF, Done: true}}, atMost: 2 * time.Minute},
	{name: "create comes late", faults: map[recyclertest.Op]fault{recyclertest.Create: {Err: io.EOF, Late: 20 * time.Second}}, first: 1, atMost: 3 * time.Minute},
	{name: "create comes late, all fail", faults: map[recyclertest.Op]fault{recyclertest.Create: {Err: io.EOF, Late: 50 * time.Second}}, want: recycler.ErrPodAPI, kind: volume.Transient, atMost: 3 * time.Minute},
	{name: "create hangs", faults: map[recyclertest.Op]fault{recyclertest.Create: {Hang: true}}, cancel: time.Second, want: context.Canceled, kind: volume.Uncertain, atMost: 2 * time.Minute},

	{name: "get unavailable", faults: map[recyclertest.Op]fault{recyclertest.Get: {Err: apierrors.NewServiceUnavailable("")}}, want: recycler.ErrPodLeft, kind: volume.Uncertain, atMost: 3 * time.Minute},
	{name: "get unavailable for a while", faults: map[recyclertest.Op]fault{recyclertest.Get: {Err: apierrors.NewServiceUnavailable("")}}, first: 4},
	{name: "list unavailable", faults: map[recyclertest.Op]fault{recyclertest.List: {Err: apierrors.NewServiceUnavailable("")}}, want: recycler.ErrPodAPI, kind: volume.Transient},
	{name: "list unavailable once", faults: map[recyclertest.Op]fault{recyclertest.List: {Err: apierrors.NewServiceUnavailable("")}}, first: 1},

	{name: "delete forbidden", faults: map[recyclertest.Op]fault{recyclertest.Delete: {Err: apierrors.NewForbidden(pods, "", io.EOF)}}, want: recycler.ErrPodLeft, kind: volume.Transient},
	{name: "delete conflicts", faults: map[recyclertest.Op]fault{recyclertest.Delete: {Err: apierrors.NewConflict(pods, "", io.EOF)}}, want: recycler.ErrPodLeft, kind: volume.Transient, atMost: 2 * time.Minute},
	{name: "delete conflicts twice", faults: map[recyclertest.Op]fault{recyclertest.Delete: {Err: apierrors.NewConflict(pods, "", io.EOF)}}, first: 2},
	{name: "delete not found, but it is", faults: map[recyclertest.Op]fault{recyclertest.Delete: {Err: apierrors.NewNotFound(pods, "")}}, first: 2},
	{name: "delete succeeds, but error", faults: map[recyclertest.Op]fault{recyclertest.Delete: {Err: io.EOF, Done: true}}},
	{name: "delete never ends", fate: fate{Never: true, Stay: true}, cancel: time.Second, want: recycler.ErrPodLeft, kind: volume.Uncertain, atMost: 2 * time.Minute},
}

func TestPodOutcomes(t *testing.T) {
	for _, o := range outcomes {
		t.Run(o.name, func(t *testing.T) { synctest.Test(t, o.run) })
	}
}

func (o outcome) run(t *testing.T) {
	c := o.cluster()
	pv := nfsVolume("pv")
	c.Fill(sourceOf(pv), "a file")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if o.cancel > 0 {
		time.AfterFunc(o.cancel, cancel)
	}
	start := time.Now()
	recyclers := newPods(t, recycler.PodConfig{Client: c})
	err := recyclers.Recycle(ctx, "pv", specOf(pv))
	if o.cancel > 0 {
		require.LessOrEqual(t, time.Since(start), o.cancel+100*time.Millisecond)
	}
	if o.atMost == 0 {
		o.atMost = 30 * time.Second
	}
	require.NoError(t, recyclers.Wait(t.Context()))
	require.LessOrEqual(t, time.Since(start), o.atMost)
	require.ErrorIs(t, err, o.want)
	require.Equal(t, o.kind, volume.KindOf(err), "%v", err)
	if o.want == nil {
		require.NoError(t, err)
		require.Empty(t, c.Files(sourceOf(pv)))
	}
	if !errors.Is(err, recycler.ErrPodLeft) || !errors.Is(o.want, recycler.ErrPodLeft) {
		require.Zero(t, countOurs(c), "%v", err)
	}
	require.Zero(t, c.Watches())
	time.Sleep(time.Hour) // nothing comes later
	if !errors.Is(err, recycler.ErrPodLeft) || !errors.Is(o.want, recycler.ErrPodLeft) {
		require.Zero(t, countOurs(c), "%v", err)
	}
}

func (o outcome) cluster() *recyclertest.Cluster {
	var mu sync.Mutex
	calls := map[recyclertest.Op]int{}
	meddled := false
	var c *recyclertest.Cluster
	c = recyclertest.NewCluster(recyclertest.Config{
		Fate: func(*v1.Pod) fate { return o.fate },
		Fault: func(_ context.Context, call recyclertest.Call) fault {
			mu.Lock()
			defer mu.Unlock()
			if call.Op == recyclertest.Get && o.meddle != nil && !meddled {
				meddled = true
				o.meddle(c, &c.Pods()[0])
			}
			calls[call.Op]++
			if o.first > 0 && calls[call.Op] > o.first {
				return fault{}
			}
			return o.faults[call.Op]
		},
	})
	return c
}

// replaceByForeignPod replaces a pod by a foreign pod of the same name.
func replaceByForeignPod(c *recyclertest.Cluster, pod *v1.Pod) {
	c.Put(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Spec:       pod.Spec, Status: v1.PodStatus{Phase: v1.PodSucceeded},
	})
}

// putSecondPod puts another pod of the same call in its place, as the API does that was asked
// twice and is late.
func putSecondPod(c *recyclertest.Cluster, pod *v1.Pod) { c.Put(pod) }

func removePod(c *recyclertest.Cluster, pod *v1.Pod) { c.Remove(pod.Namespace, pod.Name) }

func alterPod(how func(*v1.Pod)) func(*recyclertest.Cluster, *v1.Pod) {
	return func(c *recyclertest.Cluster, pod *v1.Pod) { c.Alter(pod.Namespace, pod.Name, how) }
}

func countOurs(c *recyclertest.Cluster) (n int) {
	for _, pod := range c.Pods() {
		if pod.Labels[recycler.OwnerLabel] != "" {
			n++
		}
	}
	return n
}

func newPods(t *testing.T, config recycler.PodConfig) *recycler.Pod {
	t.Helper()
	p, err := recycler.NewPod(config)
	require.NoError(t, err)
	return p
}

// TestPodOldAndForeign checks that pods of earlier runs are removed and do not count as
// results, and that foreign pods stay.
func TestPodOldAndForeign(t *testing.T) {
	pv := nfsVolume("pv")
	old := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "old",
			Labels:      map[string]string{recycler.OwnerLabel: "volumekit", recycler.VolumeUIDLabel: string(pv.UID)},
			Annotations: map[string]string{recycler.VolumeAnnotation: pv.Name},
		},
		Status: v1.PodStatus{Phase: v1.PodSucceeded},
	}
	tests := map[string]struct {
		change func(*v1.Pod)
		gone   bool
	}{
		"succeeded":            {func(*v1.Pod) {}, true},
		"running":              {func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }, true},
		"another volume's":     {func(p *v1.Pod) { p.Labels[recycler.VolumeUIDLabel] = "x" }, false},
		"another's of the UID": {func(p *v1.Pod) { p.Annotations[recycler.VolumeAnnotation] = "x" }, false},
		"another owner's":      {func(p *v1.Pod) { p.Labels[recycler.OwnerLabel] = "x" }, false},
		"elsewhere":            {func(p *v1.Pod) { p.Namespace = "x" }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := recyclertest.NewCluster(recyclertest.Config{})
				c.Fill(sourceOf(pv), "a file")
				pod := old.DeepCopy()
				test.change(pod)
				c.Put(pod)
				require.NoError(t, newPods(t, recycler.PodConfig{Client: c}).Recycle(t.Context(), "pv", specOf(pv)))
				require.Empty(t, c.Files(sourceOf(pv)))
				require.Equal(t, test.gone, len(c.Pods()) == 0)
			})
		})
	}
}

// An old pod that does not go keeps a new one from being created.
func TestPodOldStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stay := true
		c := recyclertest.NewCluster(recyclertest.Config{Fate: func(*v1.Pod) fate {
			return fate{Never: stay, Stay: stay}
		}})
		p := newPods(t, recycler.PodConfig{Client: c})
		pv := nfsVolume("pv")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, p.Recycle(ctx, "pv", specOf(pv)), recycler.ErrPodLeft)
		stay = false
		err := p.Recycle(t.Context(), "pv", specOf(pv))
		require.ErrorIs(t, err, recycler.ErrPodLeft)
		require.Len(t, c.Pods(), 1)
	})
}

func TestPodForeignHasTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *recyclertest.Cluster
		c = recyclertest.NewCluster(recyclertest.Config{Fault: func(_ context.Context, call recyclertest.Call) fault {
			if call.Op == recyclertest.Create {
				foreign := call.Pod.DeepCopy()
				foreign.Annotations[recycler.RunAnnotation] = "another"
				foreign.Labels = nil
				foreign.Status.Phase = v1.PodSucceeded
				c.Put(foreign)
			}
			return fault{}
		}})
		pv := nfsVolume("pv")
		err := newPods(t, recycler.PodConfig{Client: c}).Recycle(t.Context(), "pv", specOf(pv))
		require.ErrorIs(t, err, recycler.ErrPodForeign)
		require.Equal(t, volume.Transient, volume.KindOf(err))
		require.Len(t, c.Pods(), 1)
	})
}

func TestPodEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := recyclertest.NewCluster(recyclertest.Config{Fate: func(*v1.Pod) fate { return fate{Run: time.Minute} }})
		var told []recycler.Event
		p := newPods(t, recycler.PodConfig{Client: c, Recorder: func(e recycler.Event) { told = append(told, e) }})
		time.AfterFunc(10*time.Second, func() {
			pod := c.Pods()[0]
			event := &v1.Event{ObjectMeta: metav1.ObjectMeta{UID: "e"}, Type: "Warning", Reason: "FailedMount", Count: 1}
			event.InvolvedObject.UID = pod.UID
			again, foreign := event.DeepCopy(), event.DeepCopy()
			again.Count, foreign.UID, foreign.InvolvedObject.UID = 2, "f", "another pod"
			for _, e := range []*v1.Event{event, event, foreign, again} {
				c.Emit(pod.Namespace, pod.Name, e)
			}
		})
		pv := nfsVolume("pv")
		require.NoError(t, p.Recycle(t.Context(), "pv", specOf(pv)))
		reasons := []string{}
		for _, e := range told {
			require.Equal(t, "pv", e.Volume)
			require.Equal(t, pv.UID, e.VolumeUID)
			require.NotEmpty(t, e.Pod)
			reasons = append(reasons, e.Reason)
		}
		require.Equal(t, []string{"Started", "FailedMount", "FailedMount"}, reasons)
	})
}

// A lateWatchCluster has watches that report an event when their contexts end.
type lateWatchCluster struct{ *recyclertest.Cluster }

func (d lateWatchCluster) Watch(_ context.Context, pod *v1.Pod) (recycler.PodWatch, error) {
	event := &v1.Event{Reason: "FailedMount"}
	event.InvolvedObject.UID = pod.UID
	return lateWatch{Event: event}, nil
}

type lateWatch recycler.PodUpdate

func (lateWatch) Stop() {}

func (l lateWatch) Next(ctx context.Context) (recycler.PodUpdate, error) {
	<-ctx.Done()
	return recycler.PodUpdate(l), nil
}

// TestLateEventIsRecorded checks that an event is recorded which the watch reports just
// when the run stops reading it.
func TestLateEventIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := recyclertest.NewCluster(recyclertest.Config{Fate: func(*v1.Pod) fate { return fate{Run: 15 * time.Second} }})
		told := 0
		p := newPods(t, recycler.PodConfig{Client: lateWatchCluster{c}, Recorder: func(recycler.Event) { told++ }})
		require.NoError(t, p.Recycle(t.Context(), "pv", specOf(nfsVolume("pv"))))
		require.Equal(t, 2, told) // after 10 and 20 seconds
	})
}

// Recycles of one volume wait for each other; those of others do not, and the template
// stays as it was.
func TestPodConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		template := recycler.NewPersistentVolumeRecyclerPodTemplate()
		c := recyclertest.NewCluster(recyclertest.Config{Fate: func(*v1.Pod) fate { return fate{Run: 10 * time.Second} }})
		p := newPods(t, recycler.PodConfig{Client: c, Template: template})
		var all sync.WaitGroup
		start := time.Now()
		for _, name := range strings.Fields("a b c a b c") {
			pv := nfsVolume(name)
			c.Fill(sourceOf(pv), "a file")
			all.Go(func() {
				if err := p.Recycle(t.Context(), "", specOf(pv)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Less(t, time.Since(start), 25*time.Second)
		for _, name := range strings.Fields("a b c") {
			require.Len(t, c.Scrubs(sourceOf(nfsVolume(name))), 2)
		}
		require.Equal(t, recycler.NewPersistentVolumeRecyclerPodTemplate(), template)
	})
}

func TestPodWaitsForItsVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := recyclertest.NewCluster(recyclertest.Config{Fate: func(*v1.Pod) fate { return fate{Run: time.Minute} }})
		p := newPods(t, recycler.PodConfig{Client: c})
		pv := nfsVolume("pv")
		first := make(chan error)
		go func() { first <- p.Recycle(t.Context(), "pv", specOf(pv)) }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.Recycle(ctx, "pv", specOf(pv))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, volume.Transient, volume.KindOf(err))
		require.NoError(t, <-first)
	})
}

// Volumes that have the same files wait for each other, too, however the server is
// written.
func TestPodWaitsForItsStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most := map[types.UID]bool{}, 0
		var mu sync.Mutex
		c := recyclertest.NewCluster(recyclertest.Config{
			Fate: func(*v1.Pod) fate { return fate{Run: time.Minute} },
			Fault: func(_ context.Context, call recyclertest.Call) fault {
				mu.Lock()
				defer mu.Unlock()
				switch call.Op {
				case recyclertest.Create:
					running[types.UID(call.Pod.Name)] = true
					most = max(most, len(running))
				case recyclertest.Delete:
					delete(running, types.UID(call.Pod.Name))
				}
				return fault{}
			},
		})
		p := newPods(t, recycler.PodConfig{Client: c})
		var all sync.WaitGroup
		for i, server := range []string{"nfs.example", "NFS.example.", "nfs.example"} {
			pv := nfsVolume(fmt.Sprint("pv-", i))
			pv.Spec.NFS = &v1.NFSVolumeSource{Server: server, Path: []string{"/a/b", "/a/b/", "/a//b"}[i]}
			all.Go(func() {
				if err := p.Recycle(t.Context(), "", specOf(pv)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, 1, most, "one pod at a time has the files")
	})
}

func TestPodRefuses(t *testing.T) {
	block := v1.PersistentVolumeBlock
	tests := map[string]struct {
		change func(*v1.PersistentVolume)
		want   error // nil: a *field.Error
	}{
		"no UID":         {func(pv *v1.PersistentVolume) { pv.UID = "" }, nil},
		"bad UID":        {func(pv *v1.PersistentVolume) { pv.UID = "a b" }, nil},
		"no server":      {func(pv *v1.PersistentVolume) { pv.Spec.NFS.Server = "" }, nil},
		"relative":       {func(pv *v1.PersistentVolume) { pv.Spec.NFS.Path = "exports" }, nil},
		"dots":           {func(pv *v1.PersistentVolume) { pv.Spec.NFS.Path = "/exports/../other" }, nil},
		"read-only":      {func(pv *v1.PersistentVolume) { pv.Spec.NFS.ReadOnly = true }, nil},
		"mounted ro":     {func(pv *v1.PersistentVolume) { pv.Spec.MountOptions = []string{"hard", "ro"} }, nil},
		"another port":   {func(pv *v1.PersistentVolume) { pv.Spec.MountOptions = []string{"port=1"} }, volume.ErrNotSupported},
		"a block device": {func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &block }, volume.ErrNotSupported},
		"a host's path": {func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}
		}, volume.ErrNotSupported},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := recyclertest.NewCluster(recyclertest.Config{Fault: func(context.Context, recyclertest.Call) fault {
				t.Error("the cluster was asked")
				return fault{}
			}})
			pv := nfsVolume("pv")
			test.change(pv)
			err := newPods(t, recycler.PodConfig{Client: c}).Recycle(t.Context(), "pv", specOf(pv))
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
				return
			}
			require.ErrorAs(t, err, new(*field.Error))
		})
	}
}

func TestNilPod(t *testing.T) {
	p := newPods(t, recycler.PodConfig{Client: recyclertest.NewCluster(recyclertest.Config{})})
	require.ErrorAs(t, p.Recycle(t.Context(), "", nil), new(*field.Error))
	require.ErrorAs(t, p.Recycle(t.Context(), "", &volume.Spec{Volume: &v1.Volume{Name: "v"}}), new(*field.Error))
}

func TestNewPodRefuses(t *testing.T) {
	client := recyclertest.NewCluster(recyclertest.Config{})
	for name, config := range map[string]recycler.PodConfig{
		"no client": {},
		"template":  {Client: client, Template: &v1.Pod{}},
		"namespace": {Client: client, Namespace: "A/B"},
		"owner":     {Client: client, Owner: "a b"},
		"timeout":   {Client: client, CallTimeout: -1},
	} {
		_, err := recycler.NewPod(config)
		require.ErrorAs(t, err, new(*field.Error), name)
	}
}

func nfsVolume(name string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)},
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: v1.PersistentVolumeSource{
				NFS: &v1.NFSVolumeSource{Server: "nfs.example", Path: "/exports/" + name},
			},
		},
	}
}

func sourceOf(pv *v1.PersistentVolume) v1.VolumeSource { return v1.VolumeSource{NFS: pv.Spec.NFS} }

func specOf(pv *v1.PersistentVolume) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(pv, false)
}
