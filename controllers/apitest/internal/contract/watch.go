package contract

import (
	"strconv"

	"github.com/volumekit/volumekit/internal/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// version returns the current version of the server, from a list of ConfigMaps.
func (c *contract) version() string {
	_, meta := c.list(metav1.ListOptions{})
	return meta.ResourceVersion
}

// number returns a version as a number.
func (c *contract) number(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	require.NoError(c, err)
	return n
}

// increasing requires versions that increase.
func (c *contract) increasing(versions []string) {
	c.Helper()
	for i := 1; i < len(versions); i++ {
		require.Less(c, c.number(versions[i-1]), c.number(versions[i]))
	}
}

// ended requires that a watch ends without a further event.
func (c *contract) ended(w watch.Interface) {
	c.Helper()
	for event := range w.ResultChan() {
		c.Fatalf("%s %v after the end", event.Type, event.Object)
	}
}

// readBookmark returns the object of the next event, which must be a bookmark.
func (c *contract) readBookmark(w watch.Interface) *v1.ConfigMap {
	c.Helper()
	event := c.next(w)
	require.Equal(c, watch.Bookmark, event.Type)
	return event.Object.(*v1.ConfigMap)
}

var watchTests = map[string]func(*contract){
	"WatchFromVersion": func(c *contract) {
		w := c.watchConfigMaps(metav1.ListOptions{ResourceVersion: c.version()})
		created := c.createConfigMap("a")
		updated := c.change(created, "new")
		c.remove("a")
		versions := c.expect(w, "ADDED a=value", "MODIFIED a=new", "DELETED a=new")
		require.Equal(c, []string{created.ResourceVersion, updated.ResourceVersion}, versions[:2])
		c.increasing(versions)
	},
	"WatchReplaysChanges": func(c *contract) {
		version := c.version()
		created := c.createConfigMap("a")
		c.change(created, "new")
		c.remove("a")
		c.createConfigMap("b")
		c.increasing(c.expect(c.watchConfigMaps(metav1.ListOptions{ResourceVersion: version}),
			"ADDED a=value", "MODIFIED a=new", "DELETED a=new", "ADDED b=value"))
		c.expect(c.watchConfigMaps(metav1.ListOptions{ResourceVersion: created.ResourceVersion}),
			"MODIFIED a=new", "DELETED a=new", "ADDED b=value")
	},
	"WatchOrder": func(c *contract) {
		w := c.watchConfigMaps(metav1.ListOptions{ResourceVersion: c.version()})
		var want []string
		for i := range 50 {
			name := "c" + strconv.Itoa(i)
			c.change(c.createConfigMap(name), "new")
			want = append(want, "ADDED "+name+"=value", "MODIFIED "+name+"=new")
		}
		c.increasing(c.expect(w, want...))
	},
	"WatchFromNow": func(c *contract) {
		c.createConfigMap("a")
		for _, version := range []string{"", "0"} {
			w := c.watchConfigMaps(metav1.ListOptions{ResourceVersion: version})
			c.expect(w, "ADDED a=value")
			w.Stop()
		}
	},
	"WatchOneName": func(c *contract) {
		w := c.watchConfigMaps(metav1.ListOptions{ResourceVersion: c.version(), FieldSelector: "metadata.name=b"})
		c.createConfigMap("a")
		c.createConfigMap("b")
		c.createConfigMap("c")
		c.remove("b")
		c.expect(w, "ADDED b=value", "DELETED b=value")
	},
	"WatchAllNamespaces": func(c *contract) {
		w, err := c.Cluster.ConfigMaps("").Watch(c.ctx, metav1.ListOptions{ResourceVersion: c.version(), LabelSelector: ownerLabel + "=" + c.namespace})
		require.NoError(c, err)
		defer w.Stop()
		c.createConfigMap("a")
		c.expect(w, "ADDED a=value")
	},
	"WatchSelectedByLabel": func(c *contract) {
		object := c.createConfigMap("a")
		w := c.watchConfigMaps(metav1.ListOptions{ResourceVersion: object.ResourceVersion, LabelSelector: "x=1"})
		relabel := func(value, data string) {
			object.Labels["x"], object.Data["key"] = value, data
			object = update(c, c.configMaps(), object)
		}
		relabel("1", "matches")
		relabel("1", "still")
		relabel("2", "no more")
		relabel("1", "again")
		c.remove("a")
		versions := c.expect(w, "ADDED a=matches", "MODIFIED a=still", "DELETED a=still", "ADDED a=again", "DELETED a=again")
		c.increasing(versions)
	},
	"WatchSelectedByField": func(c *contract) {
		pod := create(c, c.pods(), c.newPod("a"))
		w, err := c.pods().Watch(c.ctx, metav1.ListOptions{ResourceVersion: pod.ResourceVersion, FieldSelector: "status.phase=Running"})
		require.NoError(c, err)
		defer w.Stop()
		for _, phase := range []v1.PodPhase{v1.PodRunning, v1.PodSucceeded} {
			pod.Status.Phase = phase
			pod = updateStatus(c, c.pods(), pod)
		}
		require.Equal(c, watch.Added, c.next(w).Type)
		event := c.next(w)
		require.Equal(c, watch.Deleted, event.Type)
		require.Equal(c, v1.PodRunning, event.Object.(*v1.Pod).Status.Phase, "the state that matched last")
		require.Equal(c, pod.ResourceVersion, event.Object.(*v1.Pod).ResourceVersion, "the version of the change")
	},
	"WatchFinalizedDeletion": func(c *contract) {
		created := c.createFinalized("a")
		w := c.watchConfigMaps(metav1.ListOptions{ResourceVersion: created.ResourceVersion})
		c.remove("a")
		read := c.get("a")
		read.Finalizers = nil
		update(c, c.configMaps(), read)
		event := c.next(w)
		require.Equal(c, watch.Modified, event.Type)
		require.NotNil(c, event.Object.(*v1.ConfigMap).DeletionTimestamp)
		event = c.next(w)
		require.Equal(c, watch.Deleted, event.Type)
		require.Less(c, c.number(read.ResourceVersion), c.number(event.Object.(*v1.ConfigMap).ResourceVersion))
		require.Equal(c, []string{finalizer}, event.Object.(*v1.ConfigMap).Finalizers, "the last stored state")
	},
	"WatchShowsNoUnchangedUpdate": func(c *contract) {
		created := c.createConfigMap("a")
		w := c.watchConfigMaps(metav1.ListOptions{ResourceVersion: created.ResourceVersion})
		update(c, c.configMaps(), created)
		c.change(created, "new")
		c.expect(w, "MODIFIED a=new")
	},
	"WatchEventsAreCopies": func(c *contract) {
		version := c.version()
		a, b := c.watchConfigMaps(metav1.ListOptions{ResourceVersion: version}), c.watchConfigMaps(metav1.ListOptions{ResourceVersion: version})
		c.createConfigMap("a")
		c.next(a).Object.(*v1.ConfigMap).Data["key"] = "changed"
		c.expect(b, "ADDED a=value")
	},
	"StopEndsWatch": func(c *contract) {
		w := c.watchConfigMaps(metav1.ListOptions{ResourceVersion: c.version()})
		w.Stop()
		for event := range w.ResultChan() {
			// The reader of client-go may report the body that Stop closes.
			require.Equal(c, watch.Error, event.Type)
		}
		w.Stop()
	},
	"WatchTimeout": func(c *contract) {
		w := c.watchConfigMaps(metav1.ListOptions{ResourceVersion: c.version(), TimeoutSeconds: pointer(int64(1))})
		c.ended(w)
	},
	"BookmarkBeforeTimeout": func(c *contract) {
		w := c.watchConfigMaps(metav1.ListOptions{ResourceVersion: c.version(), AllowWatchBookmarks: true, TimeoutSeconds: pointer(int64(5))})
		created := c.createConfigMap("a")
		c.expect(w, "ADDED a=value")
		bookmark := c.readBookmark(w)
		require.LessOrEqual(c, c.number(created.ResourceVersion), c.number(bookmark.ResourceVersion))
		require.Zero(c, bookmark.Name)
	},
	"InitialEvents": func(c *contract) {
		c.createConfigMap("b")
		created := c.createConfigMap("a")
		w := c.watchConfigMaps(metav1.ListOptions{SendInitialEvents: pointer(true), AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
		c.expect(w, "ADDED a=value", "ADDED b=value")
		bookmark := c.readBookmark(w)
		require.Equal(c, "true", bookmark.Annotations[metav1.InitialEventsAnnotationKey])
		require.LessOrEqual(c, c.number(created.ResourceVersion), c.number(bookmark.ResourceVersion))
		c.change(created, "new")
		c.expect(w, "MODIFIED a=new")
	},
	"NoInitialEvents": func(c *contract) {
		c.createConfigMap("a")
		w := c.watchConfigMaps(metav1.ListOptions{SendInitialEvents: pointer(false), ResourceVersion: c.version(),
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
		c.createConfigMap("b")
		c.expect(w, "ADDED b=value")
	},
	"InvalidWatchOptions": func(c *contract) {
		for _, options := range []metav1.ListOptions{
			{SendInitialEvents: pointer(true)},
			{ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, ResourceVersion: "1"},
			{SendInitialEvents: pointer(true), ResourceVersionMatch: metav1.ResourceVersionMatchExact, ResourceVersion: "1"},
		} {
			_, err := c.configMaps().Watch(c.ctx, options)
			c.refused(err, metav1.StatusReasonInvalid)
		}
	},
	"ExpiredWatch": func(c *contract) {
		if c.Compact == nil {
			c.Skip("the server cannot compact")
		}
		created := c.createConfigMap("a")
		c.change(created, "new")
		c.Compact()
		w := c.watchConfigMaps(metav1.ListOptions{ResourceVersion: created.ResourceVersion})
		event := c.next(w)
		require.Equal(c, watch.Error, event.Type)
		require.Equal(c, metav1.StatusReasonExpired, event.Object.(*metav1.Status).Reason)
		require.Equal(c, int32(410), event.Object.(*metav1.Status).Code)
		c.ended(w)
		names, meta := c.list(metav1.ListOptions{})
		require.Equal(c, []string{"a"}, names)
		w = c.watchConfigMaps(metav1.ListOptions{ResourceVersion: meta.ResourceVersion})
		c.createConfigMap("b")
		c.expect(w, "ADDED b=value")
	},
}
