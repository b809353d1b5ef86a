package apitest_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const process = "controller"

func createIn(t *testing.T, cluster api.Cluster, name string) (*v1.ConfigMap, error) {
	return cluster.ConfigMaps("default").Create(t.Context(), newConfigMap(name), metav1.CreateOptions{})
}

func exists(t *testing.T, s *apitest.Server, name string) bool {
	_, err := s.Direct().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
	require.True(t, err == nil || apierrors.IsNotFound(err))
	return err == nil
}

// TestFailures: each failure has the class of errors that clients test for, and happens before or
// after the effect.
func TestFailures(t *testing.T) {
	failures := map[string]struct {
		failure apitest.Failure
		is      func(error) bool
	}{
		"conflict":          {apitest.Conflict, apierrors.IsConflict},
		"internal error":    {apitest.InternalError, apierrors.IsInternalError},
		"timeout":           {apitest.ServerTimeout, apierrors.IsServerTimeout},
		"unavailable":       {apitest.Unavailable, apierrors.IsServiceUnavailable},
		"too many requests": {apitest.TooManyRequests(3 * time.Second), apierrors.IsTooManyRequests},
		"expired":           {apitest.Expired, apierrors.IsResourceExpired},
		"forbidden":         {apitest.Forbidden, apierrors.IsForbidden},
		"denied":            {apitest.Denied(403), apierrors.IsForbidden},
		"unauthorized":      {apitest.Unauthorized, apierrors.IsUnauthorized},
		"expired certificate": {apitest.CertificateExpired, func(err error) bool {
			var invalid x509.CertificateInvalidError
			return errors.As(err, &invalid) && invalid.Reason == x509.Expired
		}},
		"refused": {apitest.Refused, func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
	}
	for name, test := range failures {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " late=", late), func(t *testing.T) {
				s := apitest.NewServer(apitest.Config{})
				s.Inject(apitest.Fault{Times: 1, Failure: test.failure, AfterEffect: late})
				_, err := createIn(t, s.Connect(process), "a")
				require.True(t, test.is(err), err)
				require.Equal(t, late, exists(t, s, "a"))
				_, err = createIn(t, s.Connect(process), "b")
				require.NoError(t, err, "the fault hits once")
			})
		}
	}
	seconds, ok := apierrors.SuggestsClientDelay(apitest.TooManyRequests(3 * time.Second)(apitest.Call{}))
	require.True(t, ok)
	require.Equal(t, 3, seconds)
}

func TestFaultSelectsCalls(t *testing.T) {
	tests := map[string]struct {
		fault apitest.Fault
		want  string // the failed calls
	}{
		"all":         {apitest.Fault{}, "create configmaps default/a,get configmaps default/a,create configmaps default/b,get configmaps default/b"},
		"verb":        {apitest.Fault{Call: apitest.Call{Verb: apitest.Get}}, "get configmaps default/a,get configmaps default/b"},
		"name":        {apitest.Fault{Call: apitest.Call{Name: "a"}}, "create configmaps default/a,get configmaps default/a"},
		"kind":        {apitest.Fault{Call: apitest.Call{Resource: "pods"}}, ""},
		"identity":    {apitest.Fault{Call: apitest.Call{Identity: "other"}}, ""},
		"namespace":   {apitest.Fault{Call: apitest.Call{Namespace: "other"}}, ""},
		"subresource": {apitest.Fault{Call: apitest.Call{Subresource: "status"}}, ""},
		"when":        {apitest.Fault{When: func(c apitest.Call) bool { return c.Name == "b" && c.Verb == apitest.Create }}, "create configmaps default/b"},
		"skip, times": {apitest.Fault{Skip: 1, Times: 2}, "get configmaps default/a,create configmaps default/b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := apitest.NewServer(apitest.Config{})
			test.fault.Failure = apitest.InternalError
			remove := s.Inject(test.fault)
			cluster := s.Connect(process)
			for _, name := range []string{"a", "b"} {
				_, _ = createIn(t, cluster, name)
				_, _ = cluster.ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
			}
			require.Equal(t, test.want, failed(s))
			remove()
			_, err := createIn(t, cluster, "c")
			require.NoError(t, err)
		})
	}
}

// failed returns the calls that failed with an internal error.
func failed(s *apitest.Server) string {
	var calls []string
	for _, call := range s.Calls(apitest.Call{}) {
		if apierrors.IsInternalError(call.Err) {
			calls = append(calls, call.String())
		}
	}
	return strings.Join(calls, ",")
}

// TestShareDependsOnTheSeed: the calls that a random fault hits are the same for a seed, also if
// goroutines make them in another order, and others for another seed.
func TestShareDependsOnTheSeed(t *testing.T) {
	run := func(seed uint64, concurrent bool) map[string]bool {
		s := apitest.NewServer(apitest.Config{Seed: seed})
		s.Inject(apitest.Fault{Share: 0.3, Failure: apitest.InternalError})
		var calls sync.WaitGroup
		for i := range 200 {
			call := func() { _, _ = createIn(t, s.Connect(process), fmt.Sprint("c", i)) }
			if concurrent {
				calls.Go(call)
			} else {
				call()
			}
		}
		calls.Wait()
		hit := map[string]bool{}
		for _, name := range strings.Split(failed(s), ",") {
			hit[name] = true
		}
		return hit
	}
	once := run(1, false)
	require.Equal(t, once, run(1, true))
	require.NotEqual(t, once, run(2, false))
	require.InDelta(t, 60, len(once), 25)
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.NewServer(apitest.Config{})
		s.Inject(apitest.Fault{Latency: time.Second})
		s.Inject(apitest.Fault{Latency: 2 * time.Second})
		start := time.Now()
		_, err := createIn(t, s.Connect(process), "a")
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Connect(process).ConfigMaps("default").Create(ctx, newConfigMap("b"), metav1.CreateOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 4*time.Second, time.Since(start))
		require.False(t, exists(t, s, "b"))
	})
}

// TestCrash: no call of a crashed process takes effect, not even one in flight; its watches end,
// and other processes go on.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.NewServer(apitest.Config{})
		victim, other := s.Connect(process), s.Connect(process)
		w := watchFrom(t, victim, "0")
		remove := s.Inject(apitest.Fault{Latency: time.Second})
		answer := make(chan error)
		go func() {
			_, err := createIn(t, victim, "in-flight")
			answer <- err
		}()
		synctest.Wait()
		victim.Crash()
		victim.Crash()
		require.ErrorIs(t, <-answer, apitest.ErrCrashed)
		require.False(t, exists(t, s, "in-flight"))
		_, open := <-w.ResultChan()
		require.False(t, open)
		remove()
		_, err := createIn(t, victim, "later")
		require.ErrorIs(t, err, apitest.ErrCrashed)
		_, err = createIn(t, other, "other")
		require.NoError(t, err)
	})
}

func TestCrashAfterEffect(t *testing.T) {
	s := apitest.NewServer(apitest.Config{})
	s.Inject(apitest.Fault{Times: 1, Crash: true, AfterEffect: true})
	cluster := s.Connect(process)
	_, err := createIn(t, cluster, "a")
	require.ErrorIs(t, err, apitest.ErrCrashed)
	require.True(t, exists(t, s, "a"))
	<-cluster.Crashed()
}

func watchFrom(t *testing.T, cluster api.Cluster, version string) watch.Interface {
	w, err := cluster.ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
	require.NoError(t, err)
	return w
}

// received returns the events that a watch has delivered so far, and "end" for its end.
func received(w watch.Interface) (events []string) {
	for {
		synctest.Wait()
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				return append(events, "end")
			}
			events = append(events, string(event.Type)+" "+event.Object.(*v1.ConfigMap).Name)
		default:
			return events
		}
	}
}

func TestEventFaults(t *testing.T) {
	isB := func(_ watch.EventType, object api.Object) bool { return object.GetName() == "b" }
	tests := map[string]struct {
		fault       apitest.EventFault
		first, late []string // at once, and after a second
	}{
		"none":        {apitest.EventFault{Resource: "pods", Drop: true}, []string{"ADDED a", "ADDED b", "ADDED c"}, nil},
		"drop":        {apitest.EventFault{When: isB, Drop: true}, []string{"ADDED a", "ADDED c"}, nil},
		"delay":       {apitest.EventFault{When: isB, Delay: time.Second}, []string{"ADDED a"}, []string{"ADDED b", "ADDED c"}},
		"all delayed": {apitest.EventFault{Delay: time.Second}, nil, []string{"ADDED a", "ADDED b", "ADDED c"}},
		"cut":         {apitest.EventFault{When: isB, Cut: true}, []string{"ADDED a", "end"}, []string{"end"}},
		"skip":        {apitest.EventFault{Skip: 1, Drop: true}, []string{"ADDED a"}, nil},
		"times":       {apitest.EventFault{Times: 1, Drop: true}, []string{"ADDED b", "ADDED c"}, nil},
		"other":       {apitest.EventFault{Identity: "other", Drop: true}, []string{"ADDED a", "ADDED b", "ADDED c"}, nil},
		"configmaps":  {apitest.EventFault{Identity: process, Resource: "configmaps", Drop: true}, nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := apitest.NewServer(apitest.Config{})
				w := watchFrom(t, s.Connect(process), s.Version())
				remove := s.InjectEvents(test.fault)
				for _, name := range []string{"a", "b", "c"} {
					_, err := createIn(t, s.Direct(), name)
					require.NoError(t, err)
				}
				require.Equal(t, test.first, received(w))
				time.Sleep(time.Second)
				require.Equal(t, test.late, received(w))
				remove()
				w.Stop()
				require.Equal(t, []string{"end"}, received(w))
			})
		})
	}
}

func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.NewServer(apitest.Config{})
		cluster, other := s.Connect(process), s.Connect("other")
		w, direct := watchFrom(t, cluster, s.Version()), watchFrom(t, s.Direct(), s.Version())
		end := s.StartOutage(process)
		require.Equal(t, []string{"end"}, received(w))
		_, err := createIn(t, cluster, "a")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		_, err = cluster.ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		_, err = createIn(t, other, "b")
		require.NoError(t, err)
		end()
		_, err = createIn(t, cluster, "a")
		require.NoError(t, err)
		require.Equal(t, []string{"ADDED b", "ADDED a"}, received(direct), "the test's own watch goes on")
		s.CutWatches("")
		require.Empty(t, received(direct))
		direct.Stop()
	})
}

// TestHeldEvents: no hold loses or reorders events, also of watches that begin or end meanwhile.
func TestHeldEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.NewServer(apitest.Config{})
		cluster := s.Connect(process)
		before, stopped, other := watchFrom(t, cluster, s.Version()), watchFrom(t, cluster, s.Version()), watchFrom(t, s.Connect("other"), s.Version())
		first, second := s.HoldEvents(process), s.HoldEvents("")
		_, err := createIn(t, s.Direct(), "a")
		require.NoError(t, err)
		during := watchFrom(t, cluster, "0")
		stopped.Stop()
		require.Equal(t, []string{"end"}, received(stopped))
		second()
		second()
		require.Equal(t, []string{"ADDED a"}, received(other))
		require.Empty(t, received(before))
		_, err = createIn(t, s.Direct(), "b")
		require.NoError(t, err)
		require.Empty(t, received(during))
		first()
		require.Equal(t, []string{"ADDED a", "ADDED b"}, received(before))
		require.Equal(t, []string{"ADDED a", "ADDED b"}, received(during))
		before.Stop()
		during.Stop()
		other.Stop()
	})
}

// TestCutLateEvents: a watch that has timed out, and still has to deliver late events, can be cut.
func TestCutLateEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.NewServer(apitest.Config{})
		s.InjectEvents(apitest.EventFault{Delay: time.Hour})
		seconds := int64(60)
		open := func() watch.Interface {
			w, err := s.Connect(process).ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: s.Version(), TimeoutSeconds: &seconds})
			require.NoError(t, err)
			return w
		}
		cut, late := open(), open()
		for _, name := range []string{"a", "b"} {
			_, err := createIn(t, s.Direct(), name)
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Minute)
		require.Empty(t, received(cut))
		require.Len(t, s.OpenWatches(""), 2)
		late.Stop()
		s.CutWatches("")
		require.Equal(t, []string{"end"}, received(cut))
		require.Empty(t, s.OpenWatches(""))
		delivered := open()
		_, err := createIn(t, s.Direct(), "c")
		require.NoError(t, err)
		time.Sleep(2 * time.Hour)
		require.Equal(t, []string{"ADDED c", "end"}, received(delivered))
		require.Empty(t, s.OpenWatches(""), "after its last event")
	})
}

// TestHeldStreamedList: a watch that begins with a list delivers this list, and holds the changes.
func TestHeldStreamedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.NewServer(apitest.Config{})
		_, err := createIn(t, s.Direct(), "a")
		require.NoError(t, err)
		release := s.HoldEvents(process)
		send := true
		w, err := s.Connect(process).ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
			SendInitialEvents: &send, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		require.NoError(t, err)
		_, err = createIn(t, s.Direct(), "b")
		require.NoError(t, err)
		require.Equal(t, []string{"ADDED a", "BOOKMARK "}, received(w))
		release()
		require.Equal(t, []string{"ADDED b"}, received(w))
		w.Stop()
	})
}

// TestStaleLists: lists that permit a stale state return one that is not older than they require, and
// a watch from its version delivers the later changes.
func TestStaleLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.NewServer(apitest.Config{})
		create := func(name string) {
			_, err := createIn(t, s.Direct(), name)
			require.NoError(t, err)
		}
		list := func(c api.Cluster, version string) string {
			list, err := c.ConfigMaps("default").List(t.Context(), metav1.ListOptions{ResourceVersion: version})
			require.NoError(t, err)
			return fmt.Sprint(len(list.Items), " at ", list.ResourceVersion)
		}
		cluster, other := s.Connect(process), s.Connect("other")
		create("a")
		first := s.Version()
		end := s.StaleLists(process)
		create("b")
		second := s.Version()
		create("c")
		third := s.Version()
		require.Equal(t, "1 at "+first, list(cluster, "0"))
		require.Equal(t, "2 at "+second, list(cluster, second))
		require.Equal(t, "3 at "+third, list(cluster, ""), "consistent")
		require.Equal(t, "3 at "+third, list(other, "0"))
		require.Equal(t, "3 at "+third, list(s.Direct(), "0"))
		w := watchFrom(t, cluster, first)
		require.Equal(t, []string{"ADDED b", "ADDED c"}, received(w))
		w.Stop()
		s.Compact()
		create("d")
		require.Equal(t, "3 at "+third, list(cluster, "0"), "the state of the compaction")
		end()
		require.Equal(t, "4 at "+s.Version(), list(cluster, "0"))
	})
}

func TestOpenWatches(t *testing.T) {
	s := apitest.NewServer(apitest.Config{})
	w := watchFrom(t, s.Connect(process), "0")
	other, err := s.Connect("other").Pods("").Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=a", LabelSelector: "app=b"})
	require.NoError(t, err)
	direct := watchFrom(t, s.Direct(), "0")
	defer direct.Stop()
	ofProcess := apitest.OpenWatch{Identity: process, Resource: "configmaps", Namespace: "default"}
	ofOther := apitest.OpenWatch{Identity: "other", Resource: "pods", FieldSelector: "spec.nodeName=a", LabelSelector: "app=b"}
	require.Equal(t, []apitest.OpenWatch{ofProcess, ofOther}, s.OpenWatches(""))
	require.Equal(t, []apitest.OpenWatch{ofOther}, s.OpenWatches("other"))
	w.Stop()
	other.Stop()
	require.Empty(t, s.OpenWatches(""))
}

// TestSelectionsOfCalls: a list or a watch has its selectors, and the name that they require.
func TestSelectionsOfCalls(t *testing.T) {
	s := apitest.NewServer(apitest.Config{})
	configMaps := s.Connect(process).ConfigMaps("default")
	byName := metav1.ListOptions{FieldSelector: "metadata.name=a", LabelSelector: "x=y"}
	_, err := configMaps.List(t.Context(), byName)
	require.NoError(t, err)
	named, err := configMaps.Watch(t.Context(), byName)
	require.NoError(t, err)
	named.Stop()
	_, err = configMaps.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name!=a"})
	require.NoError(t, err)
	texts := func(pattern apitest.Call) (texts []string) {
		for _, call := range s.Calls(pattern) {
			texts = append(texts, call.String())
		}
		return texts
	}
	require.Equal(t, []string{"list configmaps default/a", "watch configmaps default/a", "list configmaps default/"}, texts(apitest.Call{}))
	require.Len(t, texts(apitest.Call{Name: "a", FieldSelector: "metadata.name=a", LabelSelector: "x=y"}), 2)
	require.Len(t, texts(apitest.Call{FieldSelector: "metadata.name!=a"}), 1)
	require.Empty(t, texts(apitest.Call{LabelSelector: "x=z"}))
}

// TestHeldWatchEnds: a watch that ends during a hold, by its timeout or with 410, ends for its client
// after the hold.
func TestHeldWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.NewServer(apitest.Config{})
		cluster := s.Connect(process)
		first := s.Version()
		_, err := createIn(t, s.Direct(), "a")
		require.NoError(t, err)
		release := s.HoldEvents(process)
		seconds := int64(1)
		timed, err := cluster.ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: first, TimeoutSeconds: &seconds})
		require.NoError(t, err)
		s.Compact()
		expired, err := cluster.ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: first})
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.Empty(t, received(timed))
		release()
		require.Equal(t, []string{"ADDED a", "end"}, received(timed))
		require.Equal(t, watch.Error, (<-expired.ResultChan()).Type)
		require.Equal(t, []string{"end"}, received(expired))
		require.Empty(t, s.OpenWatches(""))
	})
}
