package node_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A recorder is a recorder of client-go that notes the objects of events.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) Event(object runtime.Object, kind, reason, message string) {
	name := fmt.Sprintf("%T", object)
	if o, ok := object.(metav1.Object); ok {
		name += " " + o.GetName()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, strings.Join([]string{name, kind, reason, message}, ": "))
}

func (r *recorder) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	r.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

func (r *recorder) AnnotatedEventf(object runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Eventf(object, kind, reason, format, args...)
}

// warnings returns the warnings so far.
func (r *recorder) warnings() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e string) bool { return !strings.Contains(e, ": Warning: ") })
}

// runNode runs a manager with the plugins of package content and a plugin in memory for claims, in a
// root inside of a directory of its own, which it returns.
func (w *world) runNode(events *recorder) (m *manager.Manager, newSpec func(name string) *v1.PersistentVolume, root string, stop func()) {
	w.Helper()
	dir, err := filepath.EvalSymlinks(w.TempDir())
	require.NoError(w, err)
	root = filepath.Join(dir, "root")
	require.NoError(w, os.Mkdir(root, 0o755))
	host, err := volume.NewHost(w.Context(), root, volume.WithNodeName("node-1"))
	require.NoError(w, err)
	kernel := mounttest.NewFake(mount.Config{})
	disks := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: kernel, NoDeviceMount: true})
	files := content.Config{Mounter: kernel, ConfigMaps: w.Source, Secrets: w.Source, Tokens: w.Source, TrustBundles: w.Source, Node: w.Source}
	plugins, err := volume.NewVolumePluginMgr(w.Context(), host, disks,
		content.NewConfigMap(files), content.NewSecret(files), content.NewDownwardAPI(files), content.NewProjected(files))
	require.NoError(w, err)
	m, err = manager.New(manager.Config{
		Plugins: plugins, Mounter: kernel, Pods: w.Source, Claims: w.Source, ControllerExpands: true,
		Events: kubeclient.ManagerEvents(events, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}),
	})
	require.NoError(w, err)
	forget := w.SubscribeContent(m.MarkRemountRequired)
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	newSpec = func(name string) *v1.PersistentVolume {
		disk := filepath.Join(dir, "disk-"+name)
		require.NoError(w, os.Mkdir(disk, 0o755))
		return disks.NewSpec(name, disk).PersistentVolume
	}
	return m, newSpec, root, func() {
		cancel()
		<-ended
		forget()
	}
}

// withItem returns a ConfigMap volume that writes the key "key" to a path.
func withItem(path string) v1.VolumeSource {
	source := byConfigMap("settings")
	source.ConfigMap.Items = []v1.KeyToPath{{Key: "key", Path: path}}
	return source
}

func projected(sources ...v1.VolumeProjection) v1.VolumeSource {
	return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources}}
}

func downward(file v1.DownwardAPIVolumeFile) v1.VolumeSource {
	return v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{file}}}
}

// TestBadInput: an invalid object from the API server costs the volume that uses it. The event is
// about the pod of the volume, and another pod gets its volumes.
func TestBadInput(t *testing.T) {
	huge := resource.MustParse("9e30")
	name := func(text string) *string { return &text }
	for title, test := range map[string]struct {
		source  v1.VolumeSource
		change  func(*v1.Pod)
		objects []api.Object
		claim   func(*v1.PersistentVolumeClaim) // changes the claim of a claim volume
		volume  func(*v1.PersistentVolume)
		want    string // part of the message
	}{
		"path out of the volume":  {source: withItem("../../../escape"), want: "escape"},
		"absolute path":           {source: withItem("/etc/passwd"), want: "/etc/passwd"},
		"path with a NUL":         {source: withItem("a\x00b"), want: "path"},
		"long path":               {source: withItem(strings.Repeat("x", 300)), want: "path"},
		"no path":                 {source: withItem(""), want: "path"},
		"unknown key":             {source: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}, Items: []v1.KeyToPath{{Key: "none", Path: "x"}}}}, want: "none"},
		"name of a ConfigMap":     {source: byConfigMap("../settings"), want: "settings"},
		"missing Secret":          {source: bySecret("none"), want: "secret ns/none not found"},
		"missing claim":           {source: byClaim("none"), want: "claim ns/none not found"},
		"unknown plugin":          {source: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "server", Path: "/"}}, want: "no volume plugin matched"},
		"name of a volume":        {source: byConfigMap("settings"), change: func(p *v1.Pod) { rename(p, "../../escape") }, want: "escape"},
		"two files of one name":   {source: projected(secretFile("key", "x"), secretFile("key", "x")), want: "x"},
		"divisor":                 {source: downward(v1.DownwardAPIVolumeFile{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu", Divisor: huge}}), want: "divisor"},
		"resource":                {source: downward(v1.DownwardAPIVolumeFile{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.soul"}}), want: "limits.soul"},
		"limit without a node":    {source: downward(v1.DownwardAPIVolumeFile{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"}}), want: `nodes "node-1" not found`},
		"signer of trust bundles": {source: projected(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{SignerName: name("../x"), LabelSelector: &metav1.LabelSelector{}, Path: "ca"}}), want: "signerName"},
		"labels of trust bundles": {source: projected(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{SignerName: name("example.com/x"), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}, Path: "ca"}}), want: "labelSelector"},
		"missing trust bundle":    {source: projected(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: name("none"), Path: "ca"}}), want: `"none" not found`},
		"volume of another claim": {source: byClaim("bad"), volume: func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID = "other", "other" }, want: "the volume is bound to ns/other"},
		"volume without a claim":  {source: byClaim("bad"), volume: func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil }, want: "bound"},
		"capacity of the volume":  {source: byClaim("bad"), volume: func(pv *v1.PersistentVolume) { pv.Spec.Capacity[v1.ResourceStorage] = huge }, want: "the volume's capacity"},
		"request of the claim":    {source: byClaim("bad"), claim: func(c *v1.PersistentVolumeClaim) { c.Spec.Resources.Requests[v1.ResourceStorage] = huge }, want: "the claim's request"},
		"capacity of the claim":   {source: byClaim("bad"), claim: func(c *v1.PersistentVolumeClaim) { c.Status.Capacity[v1.ResourceStorage] = huge }, want: "the capacity in the claim's status"},
		"volume of the good pod":  {source: byClaim("bad"), claim: func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "disk-good" }, want: "the volume is bound to ns/good"},
	} {
		t.Run(title, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start()
				events := &recorder{}
				m, newSpec, root, stop := w.runNode(events)
				defer stop()
				bind := func(c *v1.PersistentVolumeClaim, change func(*v1.PersistentVolume)) {
					pv, like := newSpec("disk-"+c.Name), volumeOf(c)
					pv.Spec.ClaimRef, pv.Spec.Capacity, pv.Spec.AccessModes = like.Spec.ClaimRef, like.Spec.Capacity, like.Spec.AccessModes
					if change != nil {
						change(pv)
					}
					w.put(pv)
				}
				w.put(configMap("settings", "blue"), secret("key", "hidden"))
				good, bad := claim("good", "disk-good"), claim("bad", "disk-bad")
				if test.claim != nil {
					test.claim(bad)
				}
				w.put(good, bad)
				bind(good, nil)
				bind(bad, test.volume)
				neighbour := pod("good", byClaim("good"), byConfigMap("settings"), bySecret("key"))
				p := pod("bad", test.source, byConfigMap("settings"))
				if test.change != nil {
					test.change(p)
				}
				w.put(p, neighbour)

				require.Error(t, w.up(m, p))
				require.NoError(t, w.up(m, neighbour), "the other pod")
				mounted := m.GetMountedVolumesForPod(w.uid("good"))
				require.Len(t, mounted, 3)
				text, err := os.ReadFile(filepath.Join(mounted["v1"].Path, "key"))
				require.NoError(t, err)
				require.Equal(t, "blue", string(text))
				require.Len(t, m.GetMountedVolumesForPod(w.uid("bad")), 1, "the other volume of the pod")

				warnings := events.warnings()
				require.NotEmpty(t, warnings)
				for _, event := range warnings {
					require.True(t, strings.HasPrefix(event, "*v1.Pod bad: Warning: FailedMount: "), event)
					require.NotContains(t, event, "hidden")
					require.NotContains(t, event, "\x00")
					require.Less(t, len(event), 2048)
				}
				require.Contains(t, strings.Join(warnings, "\n"), test.want)
				_, err = os.Lstat(filepath.Join(filepath.Dir(root), "escape"))
				require.ErrorIs(t, err, os.ErrNotExist)
			})
		})
	}
}

// rename renames the first volume of a pod.
func rename(p *v1.Pod, name string) {
	p.Spec.Volumes[0].Name = name
	p.Spec.Containers[0].VolumeMounts[0].Name = name
}

func secretFile(key, path string) v1.VolumeProjection {
	return v1.VolumeProjection{Secret: &v1.SecretProjection{
		LocalObjectReference: v1.LocalObjectReference{Name: "key"}, Items: []v1.KeyToPath{{Key: key, Path: path}},
	}}
}

// TestLargeInput: the largest objects that an API server stores, and bytes that are no text, arrive in
// the files of a volume.
func TestLargeInput(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		events := &recorder{}
		m, _, _, stop := w.runNode(events)
		defer stop()
		large := secret("large", "")
		large.Data = map[string][]byte{"key": bytes.Repeat([]byte{0xff}, 1<<20)}
		many := configMap("many", "")
		many.Data = map[string]string{}
		files := 10000
		if testing.Short() {
			files = 2000
		}
		for i := range files {
			many.Data[fmt.Sprintf("key-%d", i)] = fmt.Sprint(i)
		}
		p := pod("large", bySecret("large"), byConfigMap("many"))
		w.put(large, many, p)
		require.NoError(t, w.up(m, p))
		mounted := m.GetMountedVolumesForPod(w.uid("large"))
		data, err := os.ReadFile(filepath.Join(mounted["v0"].Path, "key"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(large.Data["key"], data))
		data, err = os.ReadFile(filepath.Join(mounted["v1"].Path, fmt.Sprint("key-", files-1)))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(files-1), string(data))
		require.Empty(t, events.warnings())
		time.Sleep(10 * time.Minute)
		require.Empty(t, events.warnings())
	})
}

// TestBadErrorOfExpansion: the event of a failed expansion is about the claim, and neither the event
// nor the condition has more than one line of text.
func TestBadErrorOfExpansion(t *testing.T) {
	inWorld(t, func(w *world) {
		data := claim("data", "disk")
		w.put(data, volumeOf(data), pod("a", byClaim("data")))
		w.start()
		e, events := &expansions{world: w}, &recorder{}
		e.startStatus(kubeclient.Events(events))
		e.expand("2Gi", "2Gi", v1.PersistentVolumeClaimNodeResizePending)
		e.report("2Gi", fmt.Errorf("a\nb\xff%s: %w", strings.Repeat("x", 10000), volume.ErrInfeasible))
		warnings := events.warnings()
		require.Len(t, warnings, 1)
		const prefix = "*v1.PersistentVolumeClaim data: Warning: VolumeResizeFailed: "
		require.True(t, strings.HasPrefix(warnings[0], prefix), warnings[0])
		conditions := e.stored().Status.Conditions
		require.Len(t, conditions, 2)
		for _, text := range []string{warnings[0][len(prefix):], conditions[0].Message + conditions[1].Message} {
			require.Contains(t, text, "a b\uFFFDxxx")
			require.NotContains(t, text, "\n")
			require.LessOrEqual(t, len(text), 1024)
			require.True(t, utf8.ValidString(text))
		}
	})
}

// TestBadDevicePath: the event of a volume with an invalid device path is about its pod, and another
// pod gets its volume.
func TestBadDevicePath(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		n, events := newManagedNode(w, 1), &recorder{}
		n.events = kubeclient.ManagerEvents(events, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
		n.boot()
		defer n.shutDown()
		n.source.SetPod(podOf(0))
		n.source.SetPod(podOf(1))
		w.change(func(s *v1.NodeStatus) {
			s.VolumesAttached = []v1.AttachedVolume{{Name: n.unique(0), DevicePath: "/dev/\n\xff"}}
		})
		attacher, err := n.plugin.NewAttacher()
		require.NoError(t, err)
		_, err = attacher.Attach(w.Context(), n.plugin.NewSpec("c1", n.disk(1)), "node-1")
		require.NoError(t, err)
		n.setAttached(1, true)
		require.NoError(t, n.manager.WaitForAttachAndMount(w.Context(), podOf(1)))
		time.Sleep(time.Minute)
		invalid := slices.DeleteFunc(events.warnings(), func(event string) bool {
			return !strings.Contains(event, "node.status.volumesAttached.devicePath")
		})
		require.NotEmpty(t, invalid)
		for _, event := range invalid {
			require.True(t, strings.HasPrefix(event, "*v1.Pod pod-0: Warning: FailedAttachVolume: "), event)
			require.NotContains(t, event, "\n")
			require.True(t, utf8.ValidString(event))
		}
	})
}
