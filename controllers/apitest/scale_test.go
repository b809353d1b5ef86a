package apitest_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestManyWatchers: 10,000 pods on 5,000 nodes, each of which watches its own pods. An idle watch
// has no goroutine, and each receives the events of its pods alone.
func TestManyWatchers(t *testing.T) {
	const pods, nodes = 10_000, 5_000
	s := apitest.NewServer(apitest.Config{})
	create := func(i int) {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod-", i)},
			Spec: v1.PodSpec{NodeName: fmt.Sprint("node-", i%nodes), Containers: []v1.Container{{Name: "c", Image: "i"}}}}
		_, err := s.Direct().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	before, memory := runtime.NumGoroutine(), heap()
	var watches []watch.Interface
	for i := range nodes {
		w, err := s.Connect("node").Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: s.Version(), FieldSelector: fmt.Sprint("spec.nodeName=node-", i)})
		require.NoError(t, err)
		defer w.Stop()
		watches = append(watches, w)
	}
	for i := range pods {
		create(i)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
	used := heap() - memory
	t.Logf("%d KiB of memory for each of %d pods, with its event in a watch", used/pods>>10, pods)
	require.Less(t, used, uint64(200<<20))
	for i, w := range watches {
		for range pods / nodes {
			require.Equal(t, fmt.Sprint("node-", i), (<-w.ResultChan()).Object.(*v1.Pod).Spec.NodeName)
		}
		select {
		case event := <-w.ResultChan():
			t.Fatalf("a further event: %v", event)
		default:
		}
	}
}

// heap returns the bytes of all live objects.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestHistoryIsLimited: a watch can begin before as many changes as Config.History, but not much
// longer ago.
func TestHistoryIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.NewServer(apitest.Config{History: 10})
		start := s.Version()
		for i := range 100 {
			_, err := createIn(t, s.Direct(), fmt.Sprint("c", i))
			require.NoError(t, err)
		}
		old := watchFrom(t, s.Connect(process), start)
		require.Equal(t, watch.Error, (<-old.ResultChan()).Type)
		_, open := <-old.ResultChan()
		require.False(t, open)
		var version uint64
		_, err := fmt.Sscan(s.Version(), &version)
		require.NoError(t, err)
		recent := watchFrom(t, s.Connect(process), fmt.Sprint(version-10))
		require.Len(t, received(recent), 10)
		recent.Stop()
	})
}

func TestBindPodAndRemoveNamespace(t *testing.T) {
	s := apitest.NewServer(apitest.Config{})
	pods := s.Connect(process).Pods("ns")
	_, err := s.Direct().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"example.com/f"}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	_, err = pods.Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, s.BindPod("ns", "a", "node-1"))
	require.Error(t, s.BindPod("ns", "a", "node-2"))
	require.Error(t, s.BindPod("ns", "b", "node-2"))
	list, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=node-1"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)

	require.NoError(t, s.RemoveNamespace("ns"))
	require.Error(t, s.RemoveNamespace("ns"))
	list, err = s.Direct().Pods("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, list.Items)
}

// TestDeterministic: equal seeds give equal UIDs and names, others differ.
func TestDeterministic(t *testing.T) {
	run := func(seed uint64) string {
		s := apitest.NewServer(apitest.Config{Seed: seed})
		object := newConfigMap("")
		object.GenerateName = "a-"
		created, err := s.Direct().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
		return created.Name + " " + string(created.UID)
	}
	require.Equal(t, run(1), run(1))
	require.NotEqual(t, run(1), run(2))
}
