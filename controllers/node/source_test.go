package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

var errDown = errors.New("connection refused")

// calls returns the two calls with which an object of namespace "ns" is watched.
func calls(resource, name string) []string {
	return []string{"list " + resource + " ns/" + name, "watch " + resource + " ns/" + name}
}

// TestCallsOfPods pins the calls to the API server: each object that the pods use is listed and
// watched once, by its name, for any number of users and reads.
func TestCallsOfPods(t *testing.T) {
	inWorld(t, func(w *world) {
		data := claim("data", "disk")
		other := pod("elsewhere", byClaim("data"), byConfigMap("settings"))
		other.Spec.NodeName = "node-2"
		w.put(other, data, volumeOf(data), configMap("settings", "1"), secret("key", "1"), configMap("unused", "1"))
		w.start()
		// A watch of client-go v0.35 or later begins with the list.
		first := slices.DeleteFunc(w.takeCalls(), func(call string) bool { return call == "list pods spec.nodeName=node-1" })
		require.Equal(t, []string{"watch pods spec.nodeName=node-1"}, first)

		ephemeral := v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}
		projected := v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "key"}}},
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "more"}}},
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		}}}
		csi := v1.VolumeSource{CSI: &v1.CSIVolumeSource{NodePublishSecretRef: &v1.LocalObjectReference{Name: "publish"}}}
		w.put(pod("a", byClaim("data"), ephemeral, byConfigMap("settings"), bySecret("key"), projected, csi))
		synctest.Wait()
		var want []string
		want = append(want, "list configmaps ns/more", "list configmaps ns/settings")
		want = append(want, "list persistentvolumeclaims ns/a-v1", "list persistentvolumeclaims ns/data")
		want = append(want, "list persistentvolumes disk")
		want = append(want, "list secrets ns/key", "list secrets ns/publish")
		for _, call := range want {
			want = append(want, "watch"+call[len("list"):])
		}
		require.Equal(t, want, w.takeCalls())

		w.put(pod("b", byClaim("data"), bySecret("key")))
		for range 10 {
			_, err := w.GetPersistentVolumeClaim(w.Context(), "ns", "data")
			require.NoError(t, err)
			_, err = w.GetPersistentVolume(w.Context(), "disk")
			require.NoError(t, err)
			_, err = w.GetSecret(w.Context(), "ns", "key")
			require.NoError(t, err)
			require.Len(t, w.pods(), 2)
		}
		time.Sleep(48 * time.Hour)
		synctest.Wait() // a watch may be renewed at this instant
		for _, call := range w.takeCalls() {
			require.Regexp(t, "^watch ", call, "an idle source, and a second user: watches are renewed")
		}

		w.remove(pod("a"))
		synctest.Wait()
		require.Equal(t, []string{"persistentvolumeclaims ns/data", "persistentvolumes disk",
			"pods spec.nodeName=node-1", "secrets ns/key"}, w.watched(), "objects of the other pod")
		w.remove(pod("b"))
		synctest.Wait()
		require.Equal(t, []string{"pods spec.nodeName=node-1"}, w.watched())
		require.Empty(t, w.takeCalls())
		_, err := w.GetSecret(w.Context(), "ns", "key")
		require.ErrorContains(t, err, "used by no pod of node node-1")
		require.False(t, volume.IsNotFound(err))

		w.put(pod("c", bySecret("key")))
		synctest.Wait()
		require.Equal(t, calls("secrets", "key"), w.takeCalls(), "a first user again")
	})
}

// TestChanges: a change of a pod, and of each object that it uses, is reported after the source
// returns it.
func TestChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		require.Equal(t, []string{"everything"}, w.takeChanges())
		data := claim("data", "")
		w.put(pod("a", byClaim("data")))
		require.Equal(t, []string{"pod a"}, w.takeChanges())
		_, err := w.GetPersistentVolumeClaim(w.Context(), "ns", "data")
		require.True(t, volume.IsNotFound(err), "%v", err)

		w.put(data)
		require.Equal(t, []string{"claim ns/data"}, w.takeChanges())
		bound := claim("data", "disk")
		w.put(bound)
		require.Equal(t, []string{"claim ns/data"}, w.takeChanges())
		_, err = w.GetPersistentVolume(w.Context(), "disk")
		require.True(t, volume.IsNotFound(err), "%v", err)
		w.put(volumeOf(bound))
		require.Equal(t, []string{"volume disk"}, w.takeChanges())
		_, err = w.GetPersistentVolume(w.Context(), "disk")
		require.NoError(t, err)

		w.put(pod("a", byClaim("data")))
		require.Equal(t, []string{"pod a"}, w.takeChanges())
		select {
		case <-w.Changed():
		default:
			t.Error("the channel of changes is empty")
		}
		w.put(configMap("unused", "1"))
		elsewhere := pod("elsewhere")
		elsewhere.Spec.NodeName = "node-2"
		w.put(elsewhere)
		require.Empty(t, w.takeChanges())
		w.remove(bound)
		require.Equal(t, []string{"claim ns/data"}, w.takeChanges())
		require.NotContains(t, w.watched(), "persistentvolumes disk", "no claim names the volume")
		w.remove(pod("a"))
		require.Equal(t, []string{"pod a"}, w.takeChanges())
		_, err = w.Pod(w.Context(), w.uid("a"))
		require.True(t, volume.IsNotFound(err), "%v", err)
	})
}

func TestContentChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put(configMap("settings", "1"), secret("key", "1"))
		w.put(pod("a", byConfigMap("settings")), pod("b", byConfigMap("settings"), bySecret("key")), pod("c", bySecret("missing")))
		w.start()
		require.Empty(t, w.takeRemounts(), "the first state")
		w.put(configMap("settings", "2"))
		require.Equal(t, []string{"a", "b"}, w.takeRemounts())
		got, err := w.GetConfigMap(w.Context(), "ns", "settings")
		require.NoError(t, err)
		require.Equal(t, "2", got.Data["key"])
		w.remove(pod("a"))
		w.remove(secret("key", ""))
		require.Equal(t, []string{"b"}, w.takeRemounts())
		_, err = w.GetSecret(w.Context(), "ns", "key")
		require.True(t, volume.IsNotFound(err), "%v", err)
		_, err = w.GetSecret(w.Context(), "ns", "missing")
		require.True(t, volume.IsNotFound(err), "%v", err)
		w.put(secret("missing", "1"))
		require.Equal(t, []string{"c"}, w.takeRemounts())
		w.takeChanges()
		w.put(configMap("settings", "3"))
		require.Empty(t, w.takeChanges(), "content is no change of a pod")
	})
}

// TestUnread: an object that was never read is not missing, reads do not wait during an outage, and
// its users are reported when it was read.
func TestUnread(t *testing.T) {
	inWorld(t, func(w *world) {
		data := claim("data", "disk")
		w.put(data, volumeOf(data), configMap("settings", "1"))
		w.start()
		w.takeChanges()
		w.restore = w.server.Inject(apitest.Fault{
			When:    func(call apitest.Call) bool { return call.Resource != "pods" },
			Failure: func(apitest.Call) error { return errDown },
		})
		w.put(pod("a", byClaim("data"), byConfigMap("settings")))
		synctest.Wait()
		_, claimErr := w.GetPersistentVolumeClaim(w.Context(), "ns", "data")
		_, contentErr := w.GetConfigMap(w.Context(), "ns", "settings")
		for _, err := range []error{claimErr, contentErr} {
			require.ErrorIs(t, err, errDown)
			require.False(t, volume.IsNotFound(err))
		}
		w.takeChanges()
		w.fail(nil)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"claim ns/data", "volume disk"}, w.takeChanges())
		require.Equal(t, []string{"a"}, w.takeRemounts(), "its set-up has failed")
	})
}

// TestOutage: the source keeps its last state while the API server is down, however long, and
// reports the changes afterwards.
func TestOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		data := claim("data", "disk")
		w.put(data, volumeOf(data), configMap("settings", "1"), secret("key", "1"))
		w.put(pod("a", byClaim("data"), byConfigMap("settings"), bySecret("key")), pod("b", byClaim("data")))
		w.start()
		w.takeChanges()
		w.takeRemounts()
		w.fail(errDown)
		for range 3 {
			time.Sleep(24 * time.Hour)
			require.Equal(t, []string{"a Running", "b Running"}, w.pods())
			_, err := w.GetPersistentVolumeClaim(w.Context(), "ns", "data")
			require.NoError(t, err)
			_, err = w.GetPersistentVolume(w.Context(), "disk")
			require.NoError(t, err)
			_, err = w.GetConfigMap(w.Context(), "ns", "settings")
			require.NoError(t, err)
			_, err = w.GetSecret(w.Context(), "ns", "key")
			require.NoError(t, err)
		}
		require.Empty(t, w.takeChanges())
		require.Empty(t, w.takeRemounts())
		w.remove(pod("b"))
		w.put(pod("c"), configMap("settings", "2"))
		w.takeCalls()
		w.fail(nil)
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"a Running", "c Running"}, w.pods())
		require.Equal(t, []string{"pod b", "pod c"}, w.takeChanges())
		require.Equal(t, []string{"a"}, w.takeRemounts())
	})
}

// TestStartDuringOutage: without a list of pods there is no list, rather than an empty one.
func TestStartDuringOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put(pod("a"))
		w.fail(errDown)
		w.start()
		ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
		defer cancel()
		_, err := w.Source.Pods(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = w.Pod(ctx, w.uid("a"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, volume.IsNotFound(err))
		w.fail(nil)
		require.Equal(t, []string{"a Running"}, w.pods())
	})
}

func TestContainers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.running["a"], w.running["b"] = true, true
		w.put(secret("key", "1"))
		w.put(pod("a", bySecret("key")), pod("b"), pod("c"), inPhase(pod("d"), v1.PodSucceeded))
		w.start()
		require.Equal(t, []string{"a Running", "b Running", "c Running"}, w.pods())

		w.put(inPhase(pod("a", bySecret("key")), v1.PodFailed), inPhase(pod("c"), v1.PodFailed))
		require.Equal(t, []string{"a Running", "b Running"}, w.pods(), "the containers of a run, those of c have ended")
		w.remove(pod("a"), pod("b"))
		require.Equal(t, []string{"a Running", "b Running"}, w.pods(), "deleted pods")
		_, err := w.GetSecret(w.Context(), "ns", "key")
		require.NoError(t, err)
		again := pod("a")
		again.UID = "a2"
		w.put(again)
		require.Equal(t, []string{"a Running", "a2 Running", "b Running"}, w.pods(), "a new pod of the name")

		w.takeChanges()
		w.containersEnded("a", "b", "unknown")
		require.Equal(t, []string{"a Running", "a2 Running", "b Running"}, w.pods(), "HasContainers decides")
		delete(w.running, "a")
		w.containersEnded("a")
		require.Equal(t, []string{"pod a", "pod b"}, w.takeChanges())
		require.Equal(t, []string{"a2 Running", "b Running"}, w.pods())
		require.NotContains(t, w.watched(), "secrets ns/key")
	})
}

// TestPodRecreated: a pod that was deleted and created again under its name, while no watch ran.
func TestPodRecreated(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put(pod("a", bySecret("key")))
		w.start()
		w.takeChanges()
		w.fail(errDown)
		again := pod("a", bySecret("key"))
		again.UID = "a2"
		w.remove(pod("a"))
		w.put(again)
		w.fail(nil)
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"a2 Running"}, w.pods())
		require.Equal(t, []string{"pod a", "pod a2"}, w.takeChanges())
	})
}

// TestLocalPods: pods that were deleted while the program was down stay until their containers have
// ended.
func TestLocalPods(t *testing.T) {
	inWorld(t, func(w *world) {
		w.running["a"] = true
		w.running["b"] = true
		w.put(inPhase(pod("b"), v1.PodPending))
		w.config.LocalPods = []*v1.Pod{pod("a", bySecret("key")), w.known(pod("b")), pod("c")}
		w.start()
		require.Equal(t, []string{"a Running", "b Pending"}, w.pods(), "the API server has the later state of b")
		require.Contains(t, w.watched(), "secrets ns/key")
		delete(w.running, "a")
		w.containersEnded("a")
		require.Equal(t, []string{"b Pending"}, w.pods())
	})
}

// TestSharedCache: a cache of the embedder may have pods of other nodes.
func TestSharedCache(t *testing.T) {
	inWorld(t, func(w *world) {
		elsewhere := pod("elsewhere", bySecret("key"))
		elsewhere.Spec.NodeName = "node-2"
		unbound := pod("unbound", bySecret("key"))
		unbound.Spec.NodeName = ""
		w.put(pod("a"), elsewhere, unbound)
		pods := api.NewCache(w.cluster.Pods(""), api.CacheConfig{})
		ctx, cancel := context.WithCancel(w.Context())
		w.ended.Go(func() { _ = pods.Run(ctx) })
		defer cancel()
		w.config.Pods = pods
		w.start()
		require.Equal(t, []string{"a Running"}, w.pods())
		require.Equal(t, []string{"pods"}, w.watched())
		unbound.Spec.NodeName = "node-1"
		w.put(unbound)
		require.Equal(t, []string{"a Running", "unbound Running"}, w.pods())
		cancel()
	})
}

// TestCacheOfAnotherType: an informer with other objects than pods is refused. A source without pods
// would let the manager tear down the volumes of all pods.
func TestCacheOfAnotherType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(configMap("other", "text"))
		informer := cache.NewSharedIndexInformer(&cache.ListWatch{
			ListFunc: func(o metav1.ListOptions) (runtime.Object, error) {
				return w.cluster.ConfigMaps("").List(t.Context(), o)
			},
			WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) {
				return w.cluster.ConfigMaps("").Watch(t.Context(), o)
			},
		}, &v1.ConfigMap{}, time.Hour, cache.Indexers{})
		ctx, cancel := context.WithCancel(t.Context())
		w.ended.Go(func() { informer.Run(ctx.Done()) })
		w.config.Pods = api.CacheOf[*v1.Pod](informer, nil)
		source, err := node.NewSource(w.config)
		require.NoError(t, err)
		require.ErrorContains(t, source.Run(ctx), "Config.Pods: api: cache of *v1.Pod: the informer holds objects of type *v1.ConfigMap")
		read, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		_, err = source.Pods(read)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		w.ended.Wait()
	})
}

func TestConfig(t *testing.T) {
	s := apitest.NewServer(apitest.Config{}).Direct()
	ended := func(types.UID) bool { return false }
	for name, test := range map[string]struct {
		config node.Config
		field  string
	}{
		"no cluster":      {node.Config{Node: "n"}, "Config.Cluster"},
		"no node":         {node.Config{Cluster: s}, "Config.Node"},
		"unknown end":     {node.Config{Cluster: s, Node: "n", LocalPods: []*v1.Pod{pod("a")}}, "Config.HasContainers"},
		"relative path":   {node.Config{Cluster: s, Node: "n", StaticPods: "pods"}, "Config.StaticPods"},
		"nil pod":         {node.Config{Cluster: s, Node: "n", LocalPods: []*v1.Pod{nil}, HasContainers: ended}, "Config.LocalPods[0].metadata.uid"},
		"pod without UID": {node.Config{Cluster: s, Node: "n", LocalPods: []*v1.Pod{{}}, HasContainers: ended}, "Config.LocalPods[0].metadata.uid"},
	} {
		_, err := node.NewSource(test.config)
		var invalid *field.Error
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, test.field, invalid.Field, name)
	}
}

func TestRunsOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		require.Error(t, w.Source.Run(w.Context()))
	})
}

// TestPrintingShowsNoSecret: neither a Secret nor a token appears in a printed source.
func TestPrintingShowsNoSecret(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put(secret("key", "hidden"), pod("a", bySecret("key")))
		w.start()
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
			require.Equal(t, "node.Source(node-1)", fmt.Sprintf(verb, w.Source))
		}
		text, err := json.Marshal(w.Source)
		require.NoError(t, err)
		require.Equal(t, `"node.Source"`, string(text))
	})
}
