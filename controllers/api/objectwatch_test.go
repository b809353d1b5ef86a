package api_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A pickyReader checks the options of lists and watches, and fails them with err.
type pickyReader struct {
	api.PersistentVolumeClaims
	t  *testing.T
	mu sync.Mutex
	// err fails all calls; ends makes watches end at once.
	err  error
	ends bool
}

func (r *pickyReader) set(err error, ends bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.ends = err, ends
}

func (r *pickyReader) List(ctx context.Context, options metav1.ListOptions) (*v1.PersistentVolumeClaimList, error) {
	require.Equal(r.t, metav1.ListOptions{FieldSelector: "metadata.name=claim"}, options)
	r.mu.Lock()
	defer r.mu.Unlock()
	list, err := r.PersistentVolumeClaims.List(ctx, options) // which counts the call
	if r.err != nil {
		return nil, r.err
	}
	return list, err
}

func (r *pickyReader) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	require.Equal(r.t, "metadata.name=claim", options.FieldSelector)
	require.True(r.t, options.AllowWatchBookmarks)
	require.NotEmpty(r.t, options.ResourceVersion)
	require.GreaterOrEqual(r.t, *options.TimeoutSeconds, int64(300))
	r.mu.Lock()
	defer r.mu.Unlock()
	w, err := r.PersistentVolumeClaims.Watch(ctx, options)
	if r.err != nil {
		return nil, r.err
	}
	if r.ends {
		ended := watch.NewFake()
		ended.Stop()
		return ended, nil
	}
	return w, err
}

// An objectWorld is an ObjectWatch on a server, in a bubble of synctest.
type objectWorld struct {
	*testing.T
	*server
	reader *pickyReader
	watch  *api.ObjectWatch[*v1.PersistentVolumeClaim]
	news   []string
}

func inObjectWorld(t *testing.T, prepare, test func(*objectWorld)) {
	synctest.Test(t, func(t *testing.T) {
		w := &objectWorld{T: t, server: newServer()}
		w.reader = &pickyReader{PersistentVolumeClaims: w.claimsOf(key.Namespace), t: t}
		w.watch = api.NewObjectWatch(w.reader, api.ObjectWatchConfig[*v1.PersistentVolumeClaim]{
			Key: key, Changed: func(c api.Change[*v1.PersistentVolumeClaim]) { w.news = append(w.news, describe(c)) },
		})
		prepare(w)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { require.NoError(t, w.watch.Run(ctx)) })
		test(w)
		cancel()
		running.Wait()
	})
}

// expect waits until the watch is idle, and compares the volume of the object ("-": the object does
// not exist), the changes and the calls since the last expect.
func (w *objectWorld) expect(volume string, news, calls []string) {
	w.Helper()
	synctest.Wait()
	got, err := w.watch.Get(w.Context())
	require.NoError(w, err)
	if got == nil {
		got = claim("-")
	}
	require.Equal(w, volume, got.Spec.VolumeName)
	require.Equal(w, news, w.news)
	require.Equal(w, calls, w.takeCalls())
	w.news = nil
}

func TestObjectWatch(t *testing.T) {
	inObjectWorld(t, func(w *objectWorld) {
		other := claim("other")
		other.Name = "other"
		w.put(other)
	}, func(w *objectWorld) {
		w.expect("-", nil, []string{"list", "watch"})
		stored := w.put(claim("a"))
		w.expect("a", []string{"news -a"}, nil)
		stored = w.put(withVolume(stored, "b"))
		w.expect("b", []string{"news ab"}, nil)
		w.remove(key.Namespace, key.Name)
		w.expect("-", []string{"news b-"}, nil)
		other := claim("other")
		other.Name = "another"
		w.put(other)
		w.expect("-", nil, nil)
		stored.UID = ""
		w.put(withVolume(stored, "c"))
		time.Sleep(48 * time.Hour)
		w.expect("c", []string{"news -c"}, nil)
		require.Error(w, w.watch.Run(w.Context()), "a watch runs once")
	})
}

func TestObjectWatchFirstState(t *testing.T) {
	inObjectWorld(t, func(w *objectWorld) { w.put(claim("a")) }, func(w *objectWorld) {
		w.expect("a", []string{"replay -a"}, []string{"list", "watch"})
	})
}

// TestObjectWatchExpires: after 410 Gone the object is listed; an unchanged object is no change.
func TestObjectWatchExpires(t *testing.T) {
	inObjectWorld(t, func(w *objectWorld) { w.put(claim("a")) }, func(w *objectWorld) {
		w.expect("a", []string{"replay -a"}, []string{"list", "watch"})
		time.Sleep(time.Minute)
		w.cut()
		time.Sleep(time.Minute)
		w.expect("a", nil, []string{"watch", "list", "watch"})
		w.hold()
		w.remove(key.Namespace, key.Name)
		w.cut()
		w.release()
		time.Sleep(time.Minute)
		w.expect("-", []string{"news a-"}, []string{"watch", "list", "watch"})
	})
}

// TestObjectWatchOutage: the last state stays through an outage, after which the watch goes on
// without a list.
func TestObjectWatchOutage(t *testing.T) {
	inObjectWorld(t, func(w *objectWorld) { w.put(claim("a")) }, func(w *objectWorld) {
		w.expect("a", []string{"replay -a"}, []string{"list", "watch"})
		time.Sleep(time.Minute)
		w.reader.set(errors.New("connection refused"), false)
		w.mu.Lock()
		w.watches[0].Stop()
		w.watches = nil
		w.mu.Unlock()
		time.Sleep(24 * time.Hour)
		got, err := w.watch.Get(w.Context())
		require.NoError(w, err)
		require.Equal(w, "a", got.Spec.VolumeName)
		calls := w.takeCalls()
		require.NotContains(w, calls, "list")
		require.Less(w, len(calls), 24*120+8, "the pauses grow to half a minute")
		w.put(withVolume(got, "b"))
		w.reader.set(nil, false)
		time.Sleep(time.Minute)
		w.expect("b", []string{"news ab"}, []string{"watch"})
	})
}

// TestObjectWatchFirstListFails: reads return the error without a wait, and the object after the
// first success. A missing object is told from an unread one.
func TestObjectWatchFirstListFails(t *testing.T) {
	refused := errors.New("connection refused")
	inObjectWorld(t, func(w *objectWorld) { w.reader.set(refused, false) }, func(w *objectWorld) {
		_, err := w.watch.Get(w.Context())
		require.ErrorIs(w, err, refused)
		w.reader.set(nil, false)
		time.Sleep(2 * time.Second)
		w.expect("-", nil, []string{"list", "list", "watch"})
	})
}

// TestObjectWatchEndsAtOnce: watches that end without an event are not repeated without a pause.
func TestObjectWatchEndsAtOnce(t *testing.T) {
	inObjectWorld(t, func(w *objectWorld) { w.reader.set(nil, true) }, func(w *objectWorld) {
		time.Sleep(time.Hour)
		require.Less(w, len(w.takeCalls()), 130)
		w.reader.set(nil, false)
		time.Sleep(time.Minute)
		w.put(claim("a"))
		synctest.Wait()
		require.Equal(w, []string{"news -a"}, w.news)
	})
}

func TestObjectWatchBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := api.NewObjectWatch(newServer().claimsOf("ns"), api.ObjectWatchConfig[*v1.PersistentVolumeClaim]{Key: key})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.Get(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, w.Run(ctx))
		_, err = w.Get(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded, "Run has ended before the first list")
	})
}
