package node_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/volume"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	driver = "driver.example.com"
	handle = "volume-1"
)

// TestVolumeAttachmentName: the name is the one that Kubernetes gives, here computed by sha256sum.
func TestVolumeAttachmentName(t *testing.T) {
	require.Equal(t, "csi-22c8021c2e58145862d5f1b3aa45ba58282e7e127e51572d9f664cc8104b2ae0", node.VolumeAttachmentName(driver, handle, "node-1"))
}

// A csiWorld is a reader of VolumeAttachments on an API server in memory, in a bubble of synctest.
type csiWorld struct {
	*testing.T
	reader  *node.VolumeAttachments
	server  *apitest.Server
	objects api.VolumeAttachments // of the test
}

func inCSIWorld(t *testing.T, test func(*csiWorld)) {
	synctest.Test(t, func(t *testing.T) {
		w := &csiWorld{T: t, server: apitest.NewServer(apitest.Config{})}
		w.objects = w.server.Direct().VolumeAttachments()
		var err error
		w.reader, err = node.NewVolumeAttachments(node.VolumeAttachmentsConfig{Cluster: w.server.Connect(agent), Node: "node-1"})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func(reader *node.VolumeAttachments) { ended <- reader.Run(ctx) }(w.reader)
		test(w)
		cancel()
		require.NoError(t, <-ended)
	})
}

// create creates the VolumeAttachment as the controller would.
func (w *csiWorld) create(change ...func(*storagev1.VolumeAttachment)) {
	w.Helper()
	pv := "pv"
	object := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: node.VolumeAttachmentName(driver, handle, "node-1"), Finalizers: []string{"external-attacher/x"}},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "node-1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
	}
	for _, f := range change {
		f(object)
	}
	_, err := w.objects.Create(w.Context(), object, metav1.CreateOptions{})
	require.NoError(w, err)
}

func (w *csiWorld) get() *storagev1.VolumeAttachment {
	w.Helper()
	object, err := w.objects.Get(w.Context(), node.VolumeAttachmentName(driver, handle, "node-1"), metav1.GetOptions{})
	require.NoError(w, err)
	return object
}

// report sets the status as the driver's attacher would.
func (w *csiWorld) report(change func(*storagev1.VolumeAttachmentStatus)) {
	w.Helper()
	object := w.get()
	change(&object.Status)
	_, err := w.objects.UpdateStatus(w.Context(), object, metav1.UpdateOptions{})
	require.NoError(w, err)
}

func (w *csiWorld) reportAttached() {
	w.Helper()
	w.report(func(s *storagev1.VolumeAttachmentStatus) {
		s.Attached, s.AttachError, s.AttachmentMetadata = true, nil, map[string]string{"device": "/dev/x"}
	})
}

func (w *csiWorld) reportError(message string) {
	w.Helper()
	w.report(func(s *storagev1.VolumeAttachmentStatus) {
		s.AttachError = &storagev1.VolumeError{Time: metav1.Now(), Message: message}
	})
}

func (w *csiWorld) delete() {
	w.Helper()
	require.NoError(w, w.objects.Delete(w.Context(), w.get().Name, metav1.DeleteOptions{}))
}

// remove removes the finalizer of a deleted object.
func (w *csiWorld) remove() {
	w.Helper()
	object := w.get()
	object.Finalizers = nil
	_, err := w.objects.Update(w.Context(), object, metav1.UpdateOptions{})
	require.NoError(w, err)
}

// A waiting is a call of WaitForAttachment.
type waiting struct {
	attaching
	metadata map[string]string
}

func (w *csiWorld) begin() *waiting {
	ctx, cancel := context.WithCancelCause(w.Context())
	a := &waiting{attaching: attaching{done: make(chan struct{}), cancel: cancel}}
	go func() {
		defer close(a.done)
		a.metadata, a.err = w.reader.WaitForAttachment(ctx, driver, handle)
	}()
	synctest.Wait()
	return a
}

// requireState requires the result of IsAttached.
func (w *csiWorld) requireState(attached, known bool) {
	w.Helper()
	synctest.Wait()
	gotAttached, gotKnown := w.reader.IsAttached(driver, handle)
	require.Equal(w, []bool{attached, known}, []bool{gotAttached, gotKnown})
}

// calls returns the number of calls with a verb since the last ForgetCalls.
func (w *csiWorld) calls(verb apitest.Verb) int {
	synctest.Wait()
	return len(w.server.Calls(apitest.Call{Identity: agent, Verb: verb}))
}

// TestWaitForAttachment: the wait ends with the metadata once the object is attached, and calls the
// API server for one list and one watch, by the name of the object.
func TestWaitForAttachment(t *testing.T) {
	inCSIWorld(t, func(w *csiWorld) {
		w.requireState(false, false)
		require.Zero(t, w.calls(""), "no object is watched")
		a := w.begin()
		w.requireState(false, true)
		w.create()
		require.False(t, a.isDone())
		w.requireState(false, true)
		w.reportAttached()
		require.True(t, a.isDone())
		require.NoError(t, a.err)
		require.Equal(t, map[string]string{"device": "/dev/x"}, a.metadata)
		w.requireState(true, true)

		a.metadata["device"] = "changed by the caller"
		again, err := w.reader.WaitForAttachment(w.Context(), driver, handle)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"device": "/dev/x"}, again)
		require.Equal(t, []int{1, 1}, []int{w.calls(apitest.List), w.calls(apitest.Watch)})
	})
}

// TestReleaseAttachment: the watch ends with the last interest: a failed wait, or a release.
func TestReleaseAttachment(t *testing.T) {
	inCSIWorld(t, func(w *csiWorld) {
		first, second := w.begin(), w.begin()
		first.cancel(context.Canceled)
		require.True(t, first.isDone())
		w.requireState(false, true)
		second.cancel(context.Canceled)
		require.True(t, second.isDone())
		w.requireState(false, false)

		w.create()
		w.reportAttached()
		require.True(t, w.begin().isDone())
		w.requireState(true, true)
		w.reader.ReleaseAttachment(driver, handle)
		w.requireState(false, false)
		w.reader.ReleaseAttachment(driver, handle)
		w.server.ForgetCalls()
		time.Sleep(24 * time.Hour)
		require.Zero(t, w.calls(""), "a watch goes on")
	})
}

// TestAttachErrors: an error of the driver ends the wait, with its message and time, also if the
// driver reported the error before the wait began. A further wait goes on with the same error, and
// ends with the next one, or with the volume attached.
func TestAttachErrors(t *testing.T) {
	for name, isEarlier := range map[string]bool{"during the wait": false, "before the wait": true} {
		t.Run(name, func(t *testing.T) {
			inCSIWorld(t, func(w *csiWorld) {
				w.create()
				var a *waiting
				if !isEarlier {
					a = w.begin()
				}
				time.Sleep(time.Second)
				at := time.Now().UTC().Format(time.RFC3339)
				w.reportError("no room")
				if isEarlier {
					time.Sleep(time.Hour)
					a = w.begin()
				}
				require.True(t, a.isDone())
				require.ErrorIs(t, a.err, node.ErrAttachFailed)
				require.ErrorContains(t, a.err, "attach failed at "+at+": no room")
				require.Equal(t, volume.Transient, volume.KindOf(a.err))
				var failed *node.AttachmentError
				require.ErrorAs(t, a.err, &failed)
				require.Equal(t, "no room", failed.AttachError.Message)
				require.Equal(t, at, failed.AttachError.Time.UTC().Format(time.RFC3339))

				a = w.begin()
				time.Sleep(time.Hour)
				require.False(t, a.isDone(), "an error that a wait has returned")
				cause := errors.New("out of patience")
				a.cancel(cause)
				require.True(t, a.isDone())
				require.ErrorIs(t, a.err, cause)
				require.ErrorContains(t, a.err, "no room")
				require.ErrorContains(t, a.err, w.get().Name)

				first, second := w.begin(), w.begin()
				time.Sleep(time.Hour)
				w.reportError("no room") // another attempt
				for _, a := range []*waiting{first, second} {
					require.True(t, a.isDone())
					require.ErrorIs(t, a.err, node.ErrAttachFailed)
				}

				a = w.begin()
				w.reportAttached()
				require.True(t, a.isDone())
				require.NoError(t, a.err)
			})
		})
	}
}

// TestBadAttachError: the error of a wait is one line of limited length with valid text, whatever the
// driver reports.
func TestBadAttachError(t *testing.T) {
	inCSIWorld(t, func(w *csiWorld) {
		w.create()
		w.report(func(s *storagev1.VolumeAttachmentStatus) {
			s.AttachError = &storagev1.VolumeError{Message: "a\nb\xff\x1b[2K" + strings.Repeat("x", 1000)}
			s.DetachError = &storagev1.VolumeError{Message: strings.Repeat("\r\n", 512)}
		})
		a := w.begin()
		require.True(t, a.isDone())
		require.ErrorIs(t, a.err, node.ErrAttachFailed)
		require.ErrorContains(t, a.err, "attach failed at 0001-01-01T00:00:00Z: a b\uFFFD [2Kxxx")
		text := a.err.Error()
		require.LessOrEqual(t, len(text), 1024)
		require.False(t, strings.ContainsFunc(text, unicode.IsControl))
		require.True(t, utf8.ValidString(text))
	})
}

// TestReleaseForgetsAttachErrors: after a release, and after the volume was attached, an error counts
// as new again.
func TestReleaseForgetsAttachErrors(t *testing.T) {
	for name, end := range map[string]func(*csiWorld){
		"released": func(w *csiWorld) { w.reader.ReleaseAttachment(driver, handle) },
		"attached": func(w *csiWorld) {
			failure := w.get().Status.AttachError
			w.reportAttached()
			require.True(w, w.begin().isDone())
			w.report(func(s *storagev1.VolumeAttachmentStatus) { s.Attached, s.AttachError = false, failure })
			w.requireState(false, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCSIWorld(t, func(w *csiWorld) {
				w.create()
				w.reportError("no room")
				require.True(t, w.begin().isDone())
				end(w)
				a := w.begin()
				require.True(t, a.isDone())
				require.ErrorIs(t, a.err, node.ErrAttachFailed)
			})
		})
	}
}

// TestNotAttached: none of these objects counts as attached; the error says why.
func TestNotAttached(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(w *csiWorld)
		says    string
	}{
		"missing":      {func(*csiWorld) {}, "does not exist"},
		"not attached": {func(w *csiWorld) { w.create() }, "status.attached is false"},
		"deleting": {func(w *csiWorld) {
			w.create()
			w.reportAttached()
			w.report(func(s *storagev1.VolumeAttachmentStatus) {
				s.DetachError = &storagev1.VolumeError{Time: metav1.Now(), Message: "busy"}
			})
			w.delete()
		}, "is being deleted, detach failed at 2000-01-01T00:00:00Z: busy"},
		"other driver": {func(w *csiWorld) {
			w.create(func(a *storagev1.VolumeAttachment) { a.Spec.Attacher = "other" })
			w.reportAttached()
		}, "another driver or node"},
		"other node": {func(w *csiWorld) {
			w.create(func(a *storagev1.VolumeAttachment) { a.Spec.NodeName = "node-2" })
			w.reportAttached()
		}, "another driver or node"},
		"outage": {func(w *csiWorld) {
			w.create()
			w.reportAttached()
			w.server.StartOutage(agent)
		}, "has not been read"},
	} {
		t.Run(name, func(t *testing.T) {
			inCSIWorld(t, func(w *csiWorld) {
				test.prepare(w)
				a := w.begin()
				time.Sleep(time.Hour)
				require.False(t, a.isDone())
				w.requireState(false, name != "outage")
				a.cancel(context.DeadlineExceeded)
				require.True(t, a.isDone())
				require.ErrorContains(t, a.err, test.says)
			})
		})
	}
}

// TestAttachedAgain: after a deletion the wait is for the next object of the name.
func TestAttachedAgain(t *testing.T) {
	inCSIWorld(t, func(w *csiWorld) {
		w.create()
		w.reportAttached()
		require.True(t, w.begin().isDone())
		w.delete()
		w.requireState(false, true)
		a := w.begin()
		w.remove()
		require.False(t, a.isDone())
		w.create()
		require.False(t, a.isDone())
		w.reportAttached()
		require.True(t, a.isDone())
		require.NoError(t, a.err)
	})
}

// TestOutageOfAttachments: an outage of any length detaches nothing, and a wait survives it.
func TestOutageOfAttachments(t *testing.T) {
	inCSIWorld(t, func(w *csiWorld) {
		w.create()
		w.reportAttached()
		require.True(t, w.begin().isDone())
		end := w.server.StartOutage(agent)
		w.delete()
		w.remove()
		time.Sleep(100 * time.Hour)
		w.requireState(true, true)
		require.LessOrEqual(t, w.calls(""), 10+2*100*3600/30)
		end()
		time.Sleep(time.Minute)
		w.requireState(false, true)

		end = w.server.StartOutage(agent)
		a := w.begin()
		w.create()
		w.reportAttached()
		time.Sleep(100 * time.Hour)
		require.False(t, a.isDone())
		end()
		time.Sleep(time.Minute)
		require.True(t, a.isDone())
		require.NoError(t, a.err)
	})
}

// TestWaitBeforeRun: a wait may begin before Run; a volume without a driver or a handle is refused.
func TestWaitBeforeRun(t *testing.T) {
	inCSIWorld(t, func(w *csiWorld) {
		w.create()
		w.reportAttached()
		early, err := node.NewVolumeAttachments(node.VolumeAttachmentsConfig{Cluster: w.server.Connect(agent), Node: "node-1"})
		require.NoError(t, err)
		w.reader, early = early, w.reader
		a := w.begin()
		require.False(t, a.isDone())
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.reader.Run(ctx) }()
		require.True(t, a.isDone())
		require.NoError(t, a.err)
		cancel()
		require.NoError(t, <-ended)
		require.Error(t, w.reader.Run(w.Context()), "it runs once")
		w.reader = early

		var invalid *field.Error
		_, err = w.reader.WaitForAttachment(w.Context(), "", handle)
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "driver", invalid.Field)
		_, err = w.reader.WaitForAttachment(w.Context(), driver, "")
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "handle", invalid.Field)
	})
}
