package node_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type names = []v1.UniqueVolumeName

// usedVolumes are the volumes in use as a manager would report them.
type usedVolumes struct {
	mu       sync.Mutex
	names    names
	complete bool
	changed  func()
	marked   []names
}

func (u *usedVolumes) CompleteVolumesInUse() (names, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.names, u.complete
}

func (u *usedVolumes) SubscribeVolumesInUse(changed func()) (unsubscribe func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.changed = changed
	return func() {}
}

func (u *usedVolumes) MarkVolumesAsReportedInUse(reported names) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.marked = append(u.marked, append(names{}, reported...))
}

// takeMarked returns the lists of the calls of MarkVolumesAsReportedInUse since the last call.
func (u *usedVolumes) takeMarked() []names {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.marked
	u.marked = nil
	return taken
}

// use sets the complete list of volumes in use and reports the change.
func (u *usedVolumes) use(list ...v1.UniqueVolumeName) {
	u.mu.Lock()
	u.names, u.complete = list, true
	changed := u.changed
	u.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// An attachWorld is an attacher of node-1 on an API server in memory, in a bubble of synctest.
type attachWorld struct {
	*testing.T
	*usedVolumes
	*node.Attacher
	server   *apitest.Server
	cluster  node.Cluster // of the attacher
	isShared bool         // the attacher shares the watch of a source
	nodes    api.Nodes    // of the test
	end      func()
}

const agent = "agent"

// inAttachWorld runs test with a node that a controller attaches to, once for an attacher with a watch
// of its own, and once for one that shares the watch of a source.
func inAttachWorld(t *testing.T, test func(*attachWorld)) {
	t.Helper()
	for name, isShared := range map[string]bool{"own watch": false, "watch of a source": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &attachWorld{T: t, usedVolumes: &usedVolumes{}, server: apitest.NewServer(apitest.Config{}), isShared: isShared}
				w.cluster, w.nodes = w.server.Connect(agent), w.server.Direct().Nodes()
				w.createNode()
				test(w)
				if w.end != nil {
					w.end()
				}
			})
		})
	}
}

func (w *attachWorld) createNode(inUse ...v1.UniqueVolumeName) {
	w.Helper()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Annotations: map[string]string{
		"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}}
	n.Status.VolumesInUse = inUse
	_, err := w.nodes.Create(w.Context(), n, metav1.CreateOptions{})
	require.NoError(w, err)
}

func (w *attachWorld) deleteNode() {
	w.Helper()
	require.NoError(w, w.nodes.Delete(w.Context(), "node-1", metav1.DeleteOptions{}))
}

// start runs an attacher, as after a start of the program.
func (w *attachWorld) start() {
	w.Helper()
	w.end = w.newAttacher()(w.usedVolumes)
	synctest.Wait()
}

// newAttacher makes a new attacher. run runs it, and the source whose watch it shares, until end.
func (w *attachWorld) newAttacher() (run func(node.VolumesInUse) (end func())) {
	w.Helper()
	var source *node.Source
	var err error
	config := node.AttacherConfig{Cluster: w.cluster, Node: "node-1"}
	if w.isShared {
		source, err = node.NewSource(node.Config{Cluster: w.cluster, Node: "node-1"})
		require.NoError(w, err)
		config = node.AttacherConfig{Source: source}
	}
	w.Attacher, err = node.NewAttacher(config)
	require.NoError(w, err)
	attacher := w.Attacher
	return func(volumes node.VolumesInUse) (end func()) {
		ctx, cancel := context.WithCancel(w.Context())
		var running sync.WaitGroup
		running.Go(func() { require.NoError(w, attacher.Run(ctx, volumes)) })
		if source != nil {
			running.Go(func() { require.NoError(w, source.Run(ctx)) })
		}
		return func() {
			cancel()
			running.Wait()
		}
	}
}

// node returns the node on the server.
func (w *attachWorld) node() *v1.Node {
	w.Helper()
	synctest.Wait()
	n, err := w.nodes.Get(w.Context(), "node-1", metav1.GetOptions{})
	require.NoError(w, err)
	return n
}

// inUse returns volumesInUse on the server.
func (w *attachWorld) inUse() names { return w.node().Status.VolumesInUse }

// change changes the status of the node as another program would.
func (w *attachWorld) change(f func(*v1.NodeStatus)) {
	w.Helper()
	n := w.node()
	f(&n.Status)
	_, err := w.nodes.UpdateStatus(w.Context(), n, metav1.UpdateOptions{})
	require.NoError(w, err)
}

// attach sets volumesAttached as the controller would: each device has the name of its volume.
func (w *attachWorld) attach(volumes ...v1.UniqueVolumeName) {
	w.Helper()
	w.change(func(s *v1.NodeStatus) {
		s.VolumesAttached = nil
		for _, name := range volumes {
			s.VolumesAttached = append(s.VolumesAttached, v1.AttachedVolume{Name: name, DevicePath: "/dev/" + string(name)})
		}
	})
}

// calls returns the number of calls of the agent for nodes with a verb.
func (w *attachWorld) calls(verb apitest.Verb) int {
	synctest.Wait()
	return len(w.server.Calls(apitest.Call{Identity: agent, Verb: verb, Resource: "nodes"}))
}

// An attaching is a call of Attach.
type attaching struct {
	done   chan struct{}
	cancel context.CancelCauseFunc
	path   string
	err    error
}

// A barePlugin has no ability besides those of each plugin: Attach does not wait for its device.
type barePlugin struct{ volume.VolumePlugin }

func attachmentOf(name v1.UniqueVolumeName) manager.Attachment {
	return manager.Attachment{Plugin: barePlugin{}, Volume: name, Node: "node-1"}
}

// begin calls Attach in the background.
func (w *attachWorld) begin(name v1.UniqueVolumeName) *attaching {
	ctx, cancel := context.WithCancelCause(w.Context())
	a := &attaching{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(a.done)
		a.path, a.err = w.Attach(ctx, attachmentOf(name))
	}()
	return a
}

// isDone reports whether the call has returned.
func (a *attaching) isDone() bool {
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// TestReportsVolumesInUse: each change is one write of this field alone, a burst is at most two,
// and without a change there is none.
func TestReportsVolumesInUse(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.use()
		w.start()
		require.Zero(t, w.calls(apitest.Patch), "the status is empty already")
		w.use("a", "b")
		require.Equal(t, names{"a", "b"}, w.inUse())
		require.Equal(t, []names{{"a", "b"}}, w.takeMarked())

		w.change(func(s *v1.NodeStatus) { s.Conditions = []v1.NodeCondition{{Type: v1.NodeReady}} })
		w.attach("a")
		time.Sleep(24 * time.Hour)
		require.Equal(t, 1, w.calls(apitest.Patch))
		require.Equal(t, 1, w.calls(apitest.List))
		require.Zero(t, w.calls(apitest.Get))
		require.LessOrEqual(t, w.calls(apitest.Watch), 24*60/5+1)
		require.Empty(t, w.takeMarked())

		var all names
		for _, letter := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
			all = append(all, v1.UniqueVolumeName(letter))
			w.use(slices.Clone(all)...)
		}
		time.Sleep(time.Second)
		require.Equal(t, all, w.inUse())
		require.LessOrEqual(t, w.calls(apitest.Patch), 3)

		w.use()
		time.Sleep(time.Second)
		require.Empty(t, w.inUse())
		require.Len(t, w.node().Status.Conditions, 1)
		require.Len(t, w.node().Status.VolumesAttached, 1)
	})
}

// TestKeepsEarlierStatus: until the list is complete, the status keeps the volumes that the program
// reported before its restart, and the manager may attach these volumes.
func TestKeepsEarlierStatus(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.deleteNode()
		w.createNode("a", "b")
		w.start()
		time.Sleep(24 * time.Hour)
		require.Equal(t, names{"a", "b"}, w.inUse())
		require.Equal(t, []names{{"a", "b"}}, w.takeMarked())
		w.use("b", "c")
		require.Equal(t, names{"b", "c"}, w.inUse())
		require.Equal(t, []names{{"b"}, {"b", "c"}}, w.takeMarked(), "a is dropped before the write, c is added after it")
		require.Equal(t, 1, w.calls(apitest.Patch))
	})
}

// TestForeignChangeOfVolumesInUse: another program's change of the list is reverted.
func TestForeignChangeOfVolumesInUse(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.use("a")
		w.start()
		time.Sleep(time.Second)
		w.change(func(s *v1.NodeStatus) { s.VolumesInUse = nil })
		require.Equal(t, names{"a"}, w.inUse())
		require.Equal(t, []names{{"a"}, {}, {"a"}}, w.takeMarked())
	})
}

// A replacingCluster replaces the effect of patches of nodes.
type replacingCluster struct {
	node.Cluster
	patch func(ctx context.Context, data []byte) (*v1.Node, error)
}

func (c replacingCluster) Nodes() api.Nodes { return replacedNodes{c.Cluster.Nodes(), c.patch} }

// replacedNodes are the nodes of a replacingCluster.
type replacedNodes struct {
	api.Nodes
	patch func(ctx context.Context, data []byte) (*v1.Node, error)
}

func (r replacedNodes) Patch(ctx context.Context, _ string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*v1.Node, error) {
	return r.patch(ctx, data)
}

// TestReplacedList: a list that the status does not keep is written again after pauses that grow to
// some minutes. A changed list is written at once. After a list was kept for long, the pauses are short
// again.
func TestReplacedList(t *testing.T) {
	for name, isReplaced := range map[string]bool{"a webhook removes the list": false, "another program replaces the list": true} {
		t.Run(name, func(t *testing.T) {
			inAttachWorld(t, func(w *attachWorld) {
				client := w.server.Connect(agent).Nodes()
				var isHealed atomic.Bool
				var patches atomic.Int64
				w.cluster = replacingCluster{w.cluster, func(ctx context.Context, data []byte) (*v1.Node, error) {
					patches.Add(1)
					if !isReplaced && !isHealed.Load() {
						data = []byte(`{}`)
					}
					n, err := client.Patch(ctx, "node-1", types.MergePatchType, data, metav1.PatchOptions{}, "status")
					if isReplaced && !isHealed.Load() && err == nil {
						_, err = w.nodes.Patch(ctx, "node-1", types.MergePatchType, []byte(`{"status":{"volumesInUse":["other"]}}`), metav1.PatchOptions{}, "status")
					}
					return n, err
				}}
				w.use("a")
				w.start()
				time.Sleep(time.Second)
				require.GreaterOrEqual(t, patches.Load(), int64(2), "the first repetition has no pause")
				time.Sleep(time.Hour)
				require.LessOrEqual(t, patches.Load(), int64(25))
				patches.Store(0)
				time.Sleep(24 * time.Hour)
				require.LessOrEqual(t, patches.Load(), int64(24*12))
				require.GreaterOrEqual(t, patches.Load(), int64(24*8))

				patches.Store(0)
				w.use("a", "b")
				synctest.Wait()
				require.EqualValues(t, 1, patches.Load(), "a changed list")
				time.Sleep(time.Hour)
				isHealed.Store(true)
				time.Sleep(10 * time.Minute)
				require.Equal(t, names{"a", "b"}, w.inUse())
				time.Sleep(time.Hour)
				patches.Store(0)
				for range 3 { // a few foreign changes now and then are reverted soon
					for range 2 {
						w.change(func(s *v1.NodeStatus) { s.VolumesInUse = nil })
						time.Sleep(2 * time.Second)
						require.Equal(t, names{"a", "b"}, w.inUse())
					}
					time.Sleep(time.Hour)
				}
				require.EqualValues(t, 6, patches.Load())
			})
		})
	}
}

// TestFaultsOfWrites: a failed write is repeated until it succeeds. If it took effect, it is not.
func TestFaultsOfWrites(t *testing.T) {
	patch := apitest.Call{Identity: agent, Verb: apitest.Patch}
	for name, test := range map[string]struct {
		fault         apitest.Fault
		hold          bool // the watch delivers nothing
		patches, gets int
	}{
		"429":                        {apitest.Fault{Failure: apitest.TooManyRequests(time.Second), Times: 3}, false, 4, 0},
		"500":                        {apitest.Fault{Failure: apitest.InternalError, Times: 3}, false, 4, 0},
		"503":                        {apitest.Fault{Failure: apitest.Unavailable, Times: 3}, false, 4, 0},
		"refused":                    {apitest.Fault{Failure: apitest.Refused, Times: 3}, false, 4, 0},
		"conflict":                   {apitest.Fault{Failure: apitest.Conflict, Times: 1}, false, 2, 1},
		"conflicts":                  {apitest.Fault{Failure: apitest.Conflict, Times: 3}, false, 4, 3},
		"500 after effect":           {apitest.Fault{Failure: apitest.InternalError, Times: 1, AfterEffect: true}, false, 1, 0},
		"timeout after effect":       {apitest.Fault{Failure: apitest.ServerTimeout, Times: 1, AfterEffect: true}, false, 1, 0},
		"500 after effect, no watch": {apitest.Fault{Failure: apitest.InternalError, Times: 1, AfterEffect: true}, true, 2, 1},
		"no answer":                  {apitest.Fault{Latency: time.Hour, Times: 2}, false, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inAttachWorld(t, func(w *attachWorld) {
				w.use()
				w.start()
				before := w.node().ResourceVersion
				test.fault.Call = patch
				w.server.Inject(test.fault)
				if test.hold {
					defer w.server.HoldEvents(agent)()
				}
				w.use("a")
				time.Sleep(10 * time.Minute)
				require.Equal(t, names{"a"}, w.inUse())
				require.Equal(t, []names{{"a"}}, w.takeMarked())
				require.Equal(t, test.patches, w.calls(apitest.Patch))
				require.Equal(t, test.gets, w.calls(apitest.Get))
				version := w.node().ResourceVersion
				require.NotEqual(t, before, version)
				time.Sleep(time.Hour)
				require.Equal(t, version, w.node().ResourceVersion)
			})
		})
	}
}

// TestRetryAfter: the pause after 429 is at least the one that the API server demands.
func TestRetryAfter(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.use()
		w.start()
		w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Failure: apitest.TooManyRequests(time.Minute), Times: 1})
		w.use("a")
		time.Sleep(59 * time.Second)
		require.Equal(t, 1, w.calls(apitest.Patch))
		time.Sleep(31 * time.Second)
		require.Equal(t, names{"a"}, w.inUse())
	})
}

// TestRefusedWrite: a write that the API server has refused is not sent again if the list has changed.
func TestRefusedWrite(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.use()
		w.start()
		w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Failure: apitest.TooManyRequests(time.Minute), Times: 1})
		w.use("a")
		synctest.Wait()
		w.use("b")
		time.Sleep(2 * time.Minute)
		require.Equal(t, names{"b"}, w.inUse())
		require.Equal(t, []names{{"b"}}, w.takeMarked())
		require.Equal(t, 2, w.calls(apitest.Patch))
	})
}

// TestConflictWithKubelet: a write on an older version than that of another program reads the node
// and succeeds at once, and keeps the other fields.
func TestConflictWithKubelet(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.use()
		w.start()
		release := w.server.HoldEvents(agent)
		w.change(func(s *v1.NodeStatus) { s.Conditions = []v1.NodeCondition{{Type: v1.NodeReady}} })
		w.use("a")
		require.Equal(t, names{"a"}, w.inUse())
		require.Len(t, w.node().Status.Conditions, 1)
		require.Equal(t, []int{2, 1}, []int{w.calls(apitest.Patch), w.calls(apitest.Get)})
		release()
		time.Sleep(time.Hour)
		require.Equal(t, 2, w.calls(apitest.Patch))
	})
}

// TestNodeIsReplaced: the new Node object gets the volumes in use; without one nothing is written,
// and no volume counts as detached.
func TestNodeIsReplaced(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.use("a")
		w.start()
		w.attach("a")
		w.deleteNode()
		time.Sleep(time.Hour)
		require.Equal(t, []names{{"a"}, {}}, w.takeMarked())
		attached, err := w.VolumesAreAttached(w.Context(), []manager.Attachment{attachmentOf("a")})
		require.NoError(t, err)
		require.Empty(t, attached)
		require.Equal(t, 1, w.calls(apitest.Patch))
		a := w.begin("a")
		require.False(t, a.isDone())
		w.createNode()
		time.Sleep(time.Second)
		require.Equal(t, names{"a"}, w.inUse())
		require.False(t, a.isDone())
		w.attach("a")
		require.True(t, a.isDone())
		require.NoError(t, a.err)
	})
}

// TestNodeIsDeletedBehindTheWatch: a write to a node that was deleted unnoticed is not repeated
// without an end.
func TestNodeIsDeletedBehindTheWatch(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.use()
		w.start()
		release := w.server.HoldEvents(agent)
		w.deleteNode()
		w.use("a")
		time.Sleep(time.Hour)
		require.Equal(t, []int{1, 1}, []int{w.calls(apitest.Patch), w.calls(apitest.Get)})
		release()
		w.createNode()
		time.Sleep(time.Minute)
		require.Equal(t, names{"a"}, w.inUse())
	})
}

// TestOutageOfAttacher: an outage of any length delays reports and attaches, loses none, and detaches nothing.
func TestOutageOfAttacher(t *testing.T) {
	for _, length := range []time.Duration{time.Second, time.Minute, 100 * time.Hour} {
		t.Run(length.String(), func(t *testing.T) {
			inAttachWorld(t, func(w *attachWorld) {
				w.use("a")
				w.start()
				w.attach("a")
				synctest.Wait()
				w.server.ForgetCalls()
				end := w.server.StartOutage(agent)
				w.attach() // a lie, or a change that the node cannot see
				w.use("a", "b")
				b := w.begin("b")
				for range 10 {
					time.Sleep(length / 10)
					attached, err := w.VolumesAreAttached(w.Context(), []manager.Attachment{attachmentOf("a")})
					require.NoError(t, err)
					require.Equal(t, map[v1.UniqueVolumeName]bool{"a": true}, attached)
				}
				require.LessOrEqual(t, w.calls(""), 20+2*int(length/(30*time.Second)))
				require.False(t, b.isDone())
				w.attach("a", "b")
				end()
				time.Sleep(2 * time.Minute)
				require.Equal(t, names{"a", "b"}, w.inUse())
				require.True(t, b.isDone())
				require.NoError(t, b.err)
				require.Equal(t, "/dev/b", b.path)
				require.Equal(t, []names{{"a"}, {"a", "b"}}, w.takeMarked())
			})
		})
	}
}

// TestWatchIsCut: a volume that is attached while no watch is open is noticed.
func TestWatchIsCut(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.use("a")
		w.start()
		a := w.begin("a")
		w.server.CutWatches(agent)
		w.attach("a")
		w.server.Compact()
		time.Sleep(time.Minute)
		require.True(t, a.isDone())
		require.NoError(t, a.err)
	})
}

// TestAttachWaits: Attach returns when both lists name the volume, and otherwise an error with the
// missing condition.
func TestAttachWaits(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(w *attachWorld)
		missing string // "": attached
	}{
		"attached":     {func(w *attachWorld) { w.use("a"); w.attach("b", "a") }, ""},
		"not attached": {func(w *attachWorld) { w.use("a"); w.attach("b") }, "volumesAttached does not name the volume yet"},
		"not in use":   {func(w *attachWorld) { w.use("b"); w.attach("a") }, "volumesInUse does not name the volume yet"},
		"no node":      {func(w *attachWorld) { w.deleteNode() }, "Node object"},
		"not managed": {func(w *attachWorld) {
			w.use("a")
			n := w.node()
			n.Annotations = nil
			_, err := w.nodes.Update(w.Context(), n, metav1.UpdateOptions{})
			require.NoError(w, err)
		}, "no annotation volumes.kubernetes.io/controller-managed-attach-detach"},
		"outage": {func(w *attachWorld) { w.server.StartOutage(agent) }, "Node object"},
	} {
		t.Run(name, func(t *testing.T) {
			inAttachWorld(t, func(w *attachWorld) {
				test.prepare(w)
				w.start()
				time.Sleep(time.Second)
				w.server.ForgetCalls()
				a := w.begin("a")
				if test.missing == "" {
					require.True(t, a.isDone())
					require.NoError(t, a.err)
					require.Equal(t, "/dev/a", a.path)
					return
				}
				require.False(t, a.isDone())
				time.Sleep(time.Second)
				cause := errors.New("out of patience")
				a.cancel(cause)
				require.True(t, a.isDone())
				require.ErrorContains(t, a.err, `attach volume "a" to node "node-1": `)
				require.ErrorContains(t, a.err, test.missing)
				require.ErrorIs(t, a.err, cause)
				require.Equal(t, volume.Transient, volume.KindOf(a.err))
				if name != "outage" {
					require.Zero(t, w.calls(""), "a wait is no call")
				}
				require.NoError(t, w.Detach(w.Context(), attachmentOf("a")))
			})
		})
	}
}

// TestBadVolumesAttached: an invalid entry of volumesAttached is an error of the volume that the entry
// names, and of no other volume.
func TestBadVolumesAttached(t *testing.T) {
	entry := func(path string) v1.AttachedVolume { return v1.AttachedVolume{Name: "a", DevicePath: path} }
	for name, test := range map[string]struct {
		entries []v1.AttachedVolume
		path    string
		invalid bool
	}{
		"no path":            {[]v1.AttachedVolume{entry("")}, "", false},
		"a path":             {[]v1.AttachedVolume{entry("/dev/x")}, "/dev/x", false},
		"two entries":        {[]v1.AttachedVolume{entry("/dev/x"), entry("/dev/y")}, "/dev/x", false},
		"names of others":    {[]v1.AttachedVolume{{Name: ""}, {Name: "../a"}, {Name: "a\x00"}, entry("/dev/x")}, "/dev/x", false},
		"a relative path":    {[]v1.AttachedVolume{entry("../dev/x")}, "", true},
		"control characters": {[]v1.AttachedVolume{entry("/dev/\n\x1b[2K")}, "", true},
		"a NUL":              {[]v1.AttachedVolume{entry("/dev/x\x00y")}, "", true},
		"a huge path":        {[]v1.AttachedVolume{entry("/" + strings.Repeat("x", 1<<20))}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			inAttachWorld(t, func(w *attachWorld) {
				w.use("a", "b")
				w.start()
				w.change(func(s *v1.NodeStatus) {
					s.VolumesAttached = append(test.entries, v1.AttachedVolume{Name: "b", DevicePath: "/dev/b"})
				})
				b := w.begin("b")
				require.True(t, b.isDone())
				require.NoError(t, b.err)
				require.Equal(t, "/dev/b", b.path)
				a := w.begin("a")
				require.True(t, a.isDone())
				require.Equal(t, test.path, a.path)
				if !test.invalid {
					require.NoError(t, a.err)
					return
				}
				var invalid *field.Error
				require.ErrorAs(t, a.err, &invalid)
				require.Equal(t, "node.status.volumesAttached.devicePath", invalid.Field)
				require.Equal(t, volume.Transient, volume.KindOf(a.err))
				require.Less(t, len(a.err.Error()), 1024)
				require.NotContains(t, a.err.Error(), "\n")
				require.True(t, utf8.ValidString(a.err.Error()))
			})
		})
	}
}

// TestAttachDuringRemoval: while a write that removes the volume may take effect, and until the
// volume is reported again, Attach does not trust volumesAttached.
func TestAttachDuringRemoval(t *testing.T) {
	for name, fault := range map[string]apitest.Fault{
		"in flight":          {Latency: 10 * time.Second, Times: 1},
		"open":               {Failure: apitest.InternalError, Times: 1},
		"open, with effect":  {Failure: apitest.InternalError, Times: 1, AfterEffect: true},
		"lost, then refused": {Latency: time.Hour, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inAttachWorld(t, func(w *attachWorld) {
				w.use("a")
				w.start()
				w.attach("a")
				time.Sleep(time.Second)
				require.Equal(t, []names{{"a"}}, w.takeMarked())
				fault.Call = apitest.Call{Verb: apitest.Patch}
				w.server.Inject(fault)
				w.use()
				synctest.Wait()
				require.Equal(t, []names{{}}, w.takeMarked(), "before the write")
				w.use("a")
				a := w.begin("a")
				require.False(t, a.isDone())
				time.Sleep(2 * time.Minute)
				require.True(t, a.isDone())
				require.NoError(t, a.err)
				require.Equal(t, names{"a"}, w.inUse())
				require.Equal(t, []names{{"a"}}, w.takeMarked())
				var history []string
				for _, call := range w.server.Calls(apitest.Call{Verb: apitest.Patch}) {
					history = append(history, call.String())
				}
				require.GreaterOrEqual(t, len(history), 3, "the removal has an outcome before the volume is reported again")
			})
		})
	}
}

// TestAttachAfterOpenRemoval: a removal that took effect and failed stays in flight if the API server
// refuses its repetition, until the node has been read.
func TestAttachAfterOpenRemoval(t *testing.T) {
	patch := apitest.Call{Identity: agent, Verb: apitest.Patch}
	for name, refusal := range map[string]apitest.Fault{
		"conflict, and the read fails": {Call: apitest.Call{Identity: agent, Verb: apitest.Get}, Failure: apitest.InternalError},
		"429":                          {Call: patch, Skip: 1, Failure: apitest.TooManyRequests(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			inAttachWorld(t, func(w *attachWorld) {
				w.use("a")
				w.start()
				w.attach("a")
				time.Sleep(time.Second)
				require.Equal(t, []names{{"a"}}, w.takeMarked())
				release := w.server.HoldEvents(agent)
				w.server.Inject(apitest.Fault{Call: patch, Times: 1, Failure: apitest.InternalError, AfterEffect: true})
				end := w.server.Inject(refusal)
				w.use()
				time.Sleep(10 * time.Second)
				require.Empty(t, w.inUse())
				w.use("a")
				a := w.begin("a")
				time.Sleep(time.Minute)
				require.False(t, a.isDone(), "volumesInUse lacks the volume")
				require.Equal(t, []names{{}}, w.takeMarked())
				end()
				release()
				time.Sleep(time.Minute)
				require.Equal(t, names{"a"}, w.inUse())
				require.True(t, a.isDone())
				require.NoError(t, a.err)
			})
		})
	}
}

// TestAttachOnLateWatch: a state from before an own write is not used, even if the watch delivers
// no newer one, or delivers it later: the controller may have begun to detach.
func TestAttachOnLateWatch(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.use("a")
		w.start()
		w.attach("a")
		time.Sleep(time.Second)
		release := w.server.HoldEvents(agent)
		w.use()
		time.Sleep(time.Second)
		require.Empty(t, w.inUse())
		require.Equal(t, []int{2, 0}, []int{w.calls(apitest.Patch), w.calls(apitest.Get)})
		a := w.begin("a")
		require.False(t, a.isDone())
		w.attach() // the controller detaches
		w.use("a")
		time.Sleep(time.Minute)
		require.Equal(t, names{"a"}, w.inUse())
		require.False(t, a.isDone())
		w.attach("a")
		release()
		require.True(t, a.isDone())
		require.NoError(t, a.err)
	})
	inAttachWorld(t, func(w *attachWorld) {
		w.use("a")
		w.start()
		time.Sleep(time.Second)
		w.server.InjectEvents(apitest.EventFault{Identity: agent, Delay: 10 * time.Second})
		w.attach("a")
		w.use()
		time.Sleep(time.Second)
		w.attach() // the controller detaches
		w.use("a")
		time.Sleep(time.Second)
		require.Equal(t, names{"a"}, w.inUse())
		a := w.begin("a")
		time.Sleep(2 * time.Minute) // the watch delivers the state in which both lists have the volume
		require.False(t, a.isDone())
		w.attach("a")
		time.Sleep(time.Minute)
		require.True(t, a.isDone())
		require.NoError(t, a.err)
	})
}

// TestVolumesAreAttached: the result is that of the last known state.
func TestVolumesAreAttached(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.use("a", "b")
		w.attach("a")
		w.start()
		time.Sleep(time.Second)
		w.server.ForgetCalls()
		attached, err := w.VolumesAreAttached(w.Context(), []manager.Attachment{attachmentOf("a"), attachmentOf("b")})
		require.NoError(t, err)
		require.Equal(t, map[v1.UniqueVolumeName]bool{"a": true, "b": false}, attached)
		require.Zero(t, w.calls(""))
	})
}

// TestAttachOfOtherNode: a request for another node is refused.
func TestAttachOfOtherNode(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.start()
		at := attachmentOf("a")
		at.Node = "node-2"
		_, err := w.Attach(w.Context(), at)
		require.ErrorContains(t, err, `"node-2"`)
	})
}

// A releasingPlugin records the names of released volumes.
type releasingPlugin struct {
	barePlugin
	released []string
}

func (p *releasingPlugin) ReleaseAttached(name string) { p.released = append(p.released, name) }

// A wrappingPlugin shows the plugin that it wraps.
type wrappingPlugin struct{ volume.VolumePlugin }

func (p wrappingPlugin) Unwrap() volume.VolumePlugin { return p.VolumePlugin }

// TestDetachReleases: Detach informs a plugin that is an AttachmentReleaser, also a wrapped one, and
// does not call the API server.
func TestDetachReleases(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.start()
		w.server.ForgetCalls()
		plugin, at := &releasingPlugin{}, attachmentOf("example.com/v")
		require.NoError(t, w.Detach(t.Context(), at), "a plugin that is none")
		at.Plugin, at.Name = wrappingPlugin{plugin}, "v"
		require.NoError(t, w.Detach(t.Context(), at))
		require.NoError(t, w.Detach(t.Context(), at), "again")
		require.Equal(t, []string{"v", "v"}, plugin.released)
		synctest.Wait()
		require.Empty(t, w.server.Calls(apitest.Call{}))
	})
}

// TestInvalidAttachers: an invalid configuration is refused with the name of the field.
func TestInvalidAttachers(t *testing.T) {
	cluster := apitest.NewServer(apitest.Config{}).Connect(agent)
	source, err := node.NewSource(node.Config{Cluster: cluster, Node: "n"})
	require.NoError(t, err)
	for fieldName, create := range map[string]func() error{
		"AttacherConfig.Cluster": func() error { _, err := node.NewAttacher(node.AttacherConfig{Node: "n"}); return err },
		"AttacherConfig.Node":    func() error { _, err := node.NewAttacher(node.AttacherConfig{Cluster: cluster}); return err },
		"AttacherConfig.Cluster (with a Source)": func() error {
			_, err := node.NewAttacher(node.AttacherConfig{Source: source, Cluster: cluster})
			return err
		},
		"AttacherConfig.Node (with a Source)": func() error {
			_, err := node.NewAttacher(node.AttacherConfig{Source: source, Node: "n"})
			return err
		},
		"VolumeAttachmentsConfig.Cluster": func() error {
			_, err := node.NewVolumeAttachments(node.VolumeAttachmentsConfig{Node: "n"})
			return err
		},
		"VolumeAttachmentsConfig.Node": func() error {
			_, err := node.NewVolumeAttachments(node.VolumeAttachmentsConfig{Cluster: cluster})
			return err
		},
	} {
		var invalid *field.Error
		require.ErrorAs(t, create(), &invalid)
		fieldName, _, _ = strings.Cut(fieldName, " ")
		require.Equal(t, fieldName, invalid.Field)
	}
}

// TestAttacherRunsOnce: a second Run is refused.
func TestAttacherRunsOnce(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.start()
		require.Error(t, w.Attacher.Run(w.Context(), w.usedVolumes))
	})
}

// TestSharedNodeWatch: the attachers of a source and its pods share one watch of the node, which ends
// with the last of them. The attachers are no pods whose content changes.
func TestSharedNodeWatch(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
		w.start()
		require.Equal(t, []string{"pods spec.nodeName=node-1"}, w.watched())
		var ends []func()
		for range 2 {
			attacher, err := node.NewAttacher(node.AttacherConfig{Source: w.Source})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(w.Context())
			var running sync.WaitGroup
			used := &usedVolumes{names: names{"a"}, complete: len(ends) == 1}
			running.Go(func() { require.NoError(t, attacher.Run(ctx, used)) })
			ends = append(ends, func() {
				cancel()
				running.Wait()
				synctest.Wait()
			})
			synctest.Wait()
			require.Equal(t, []string{"nodes node-1", "pods spec.nodeName=node-1"}, w.watched())
		}
		n, err := w.server.Direct().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, names{"a"}, n.Status.VolumesInUse, "the second attacher has the state of the running watch")
		p := pod("a", limitOf("limits.cpu"))
		w.put(p)
		w.takeRemounts()
		own := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		own.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
		w.put(own)
		require.Equal(t, []string{"a"}, w.takeRemounts())
		ends[0]()
		w.remove(p)
		synctest.Wait()
		require.Equal(t, []string{"nodes node-1", "pods spec.nodeName=node-1"}, w.watched())
		ends[1]()
		require.Equal(t, []string{"pods spec.nodeName=node-1"}, w.watched())
		require.Len(t, w.server.Calls(apitest.Call{Verb: apitest.List, Resource: "nodes"}), 1)
	})
}
