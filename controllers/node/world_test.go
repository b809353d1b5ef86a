package node_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/manager"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A world is a source on an API server in memory, in a bubble of synctest. Tests name pods and
// claims by labels, which are the UIDs of the objects that they put: the server generates UIDs.
type world struct {
	*testing.T
	*node.Source
	server  *apitest.Server
	cluster *apitest.Cluster // of the source
	config  node.Config
	puts    int
	restore func() // ends the outage

	news       sync.Mutex
	uids       map[types.UID]types.UID // by label
	running    map[types.UID]bool      // labels of the pods that have containers
	changes    []manager.Change
	remounts   []types.UID
	ended      sync.WaitGroup
	cancelThis context.CancelFunc
	started    func(*node.Source) // before Run; nil: nothing
}

// inWorld runs test with a source that runs from start.
func inWorld(t *testing.T, test func(*world)) {
	t.Setenv("TMPDIR", testbed.Memory())
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		test(w)
		w.stop()
	})
}

func newWorld(t *testing.T) *world {
	server := apitest.NewServer(apitest.Config{})
	w := &world{T: t, server: server, cluster: server.Connect("node"), uids: map[types.UID]types.UID{}, running: map[types.UID]bool{}}
	w.config = node.Config{Cluster: w.cluster, Node: "node-1", HasContainers: w.hasContainers}
	w.put(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	for _, name := range []string{"default", "builder"} {
		w.put(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	}
	return w
}

func (w *world) hasContainers(uid types.UID) bool {
	w.news.Lock()
	defer w.news.Unlock()
	return w.running[w.labelOf(uid)]
}

// labelOf returns the label of a UID, and the UID if it has none. The caller holds news.
func (w *world) labelOf(uid types.UID) types.UID {
	for label, of := range w.uids {
		if of == uid {
			return label
		}
	}
	return uid
}

// uid returns the UID of the last object with a label, and the label if there is none.
func (w *world) uid(label types.UID) types.UID {
	w.news.Lock()
	defer w.news.Unlock()
	if uid, ok := w.uids[label]; ok {
		return uid
	}
	return label
}

// known returns a pod with its UID instead of the label.
func (w *world) known(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	p.UID = w.uid(p.UID)
	return p
}

// start runs a source until stop, and waits until it is idle.
func (w *world) start() {
	w.Helper()
	var err error
	w.Source, err = node.NewSource(w.config)
	require.NoError(w, err)
	w.Subscribe(func(change manager.Change) {
		w.news.Lock()
		defer w.news.Unlock()
		w.changes = append(w.changes, change)
	})
	w.SubscribeContent(func(pod types.UID) {
		w.news.Lock()
		defer w.news.Unlock()
		w.remounts = append(w.remounts, pod)
	})
	if w.started != nil {
		w.started(w.Source)
	}
	var ctx context.Context
	ctx, w.cancelThis = context.WithCancel(w.Context())
	w.ended.Go(func() { require.NoError(w, w.Source.Run(ctx)) })
	w.settle()
}

func (w *world) stop() {
	w.cancelThis()
	w.ended.Wait()
}

// fail makes all calls of the source fail from now on, and ends all watches; nil ends the outage.
// The versions of before the outage are expired after it.
func (w *world) fail(err error) {
	if w.restore != nil {
		w.server.Compact()
		w.restore()
	}
	if w.restore = nil; err != nil {
		w.restore = w.server.Inject(apitest.Fault{Failure: func(apitest.Call) error { return err }})
		w.server.CutWatches("")
	}
}

// textOf returns a call with the selector of a list or watch that has no name.
func textOf(call apitest.Call) string {
	if call.Name == "" && call.FieldSelector != "" {
		return call.String() + " " + call.FieldSelector
	}
	return call.String()
}

// takeCalls returns the calls of the source since the last one, sorted.
func (w *world) takeCalls() (calls []string) {
	for _, call := range w.server.Calls(apitest.Call{}) {
		calls = append(calls, textOf(call))
	}
	w.server.ForgetCalls()
	slices.Sort(calls)
	return calls
}

// watched returns the open watches of the source, sorted.
func (w *world) watched() (all []string) {
	for _, open := range w.server.OpenWatches("") {
		selected := open.FieldSelector
		if name, ok := strings.CutPrefix(selected, "metadata.name="); ok {
			selected = strings.TrimPrefix(open.Namespace+"/"+name, "/")
		}
		all = append(all, strings.TrimSpace(open.Resource+" "+selected))
	}
	slices.Sort(all)
	return all
}

// containersEnded reports the end of the containers of pods.
func (w *world) containersEnded(labels ...types.UID) {
	uids := make([]types.UID, len(labels))
	for i, label := range labels {
		uids[i] = w.uid(label)
	}
	w.ContainersEnded(uids...)
}

// put creates or changes objects, with their status, as other programs would. A pod or a claim
// with another label than the object of its name replaces the object.
func (w *world) put(objects ...api.Object) {
	w.Helper()
	for _, object := range objects {
		w.putOne(object)
	}
}

func (w *world) putOne(object api.Object) {
	w.Helper()
	c := w.server.Direct()
	switch o := object.DeepCopyObject().(type) {
	case *v1.Pod:
		w.putPod(o)
	case *v1.PersistentVolumeClaim:
		for i := range o.OwnerReferences {
			o.OwnerReferences[i].UID = w.uid(o.OwnerReferences[i].UID)
		}
		putStatus(w, c.PersistentVolumeClaims(o.Namespace), o, func(from, to *v1.PersistentVolumeClaim) {
			to.Spec.VolumeName, to.Spec.Resources, to.Status = from.Spec.VolumeName, from.Spec.Resources, from.Status
		})
	case *v1.PersistentVolume:
		if ref := o.Spec.ClaimRef; ref != nil {
			ref.UID = w.uid(ref.UID)
		}
		putStatus(w, c.PersistentVolumes(), o, func(from, to *v1.PersistentVolume) { to.Spec, to.Status = from.Spec, from.Status })
	case *v1.Node:
		putStatus(w, c.Nodes(), o, func(from, to *v1.Node) { to.Labels, to.Status = from.Labels, from.Status })
	case *v1.ConfigMap:
		putMain(w, c.ConfigMaps(o.Namespace), o, func(from, to *v1.ConfigMap) { to.Data, to.BinaryData = from.Data, from.BinaryData })
	case *v1.Secret:
		putMain(w, c.Secrets(o.Namespace), o, func(from, to *v1.Secret) { to.Data = from.Data })
	case *certificatesv1alpha1.ClusterTrustBundle:
		putMain(w, c.ClusterTrustBundles(), o, func(from, to *certificatesv1alpha1.ClusterTrustBundle) { to.Spec, to.Labels = from.Spec, from.Labels })
	case *v1.ServiceAccount:
		putMain(w, c.ServiceAccounts(o.Namespace), o, func(_, _ *v1.ServiceAccount) {})
	case *v1.Namespace:
		putMain(w, c.Namespaces(), o, func(_, _ *v1.Namespace) {})
	case *storagev1.StorageClass:
		putMain(w, c.StorageClasses(), o, func(_, _ *storagev1.StorageClass) {})
	default:
		w.Fatalf("put %T", o)
	}
}

// putPod puts a pod: a second put changes an annotation, the node and the phase.
func (w *world) putPod(p *v1.Pod) {
	w.Helper()
	w.puts++
	for i := range p.OwnerReferences {
		p.OwnerReferences[i].UID = w.uid(p.OwnerReferences[i].UID)
	}
	pods := w.server.Direct().Pods(p.Namespace)
	if last, err := pods.Get(w.Context(), p.Name, metav1.GetOptions{}); err == nil && last.Spec.NodeName == "" && p.Spec.NodeName != "" {
		require.NoError(w, w.server.BindPod(p.Namespace, p.Name, p.Spec.NodeName))
	}
	putStatus(w, pods, p, func(from, to *v1.Pod) {
		to.Annotations = maps.Clone(from.Annotations)
		metav1.SetMetaDataAnnotation(&to.ObjectMeta, "test/put", strconv.Itoa(w.puts))
		to.Status.Phase = from.Status.Phase
	})
}

// putMain creates an object without a status, or changes the fields that set copies. It returns
// the stored object.
func putMain[O api.Object, L api.List](w *world, client api.Client[O, L], object O, set func(from, to O)) O {
	w.Helper()
	label := object.GetUID()
	last, err := client.Get(w.Context(), object.GetName(), metav1.GetOptions{})
	if err == nil && label != "" && last.GetUID() != w.uid(label) {
		w.remove(object)
		err = apierrors.NewNotFound(v1.Resource("objects"), object.GetName())
	}
	if err == nil {
		set(object, last)
		last, err = client.Update(w.Context(), last, metav1.UpdateOptions{})
		require.NoError(w, err)
		return last
	}
	created := object.DeepCopyObject().(O)
	created.SetUID("")
	created, err = client.Create(w.Context(), created, metav1.CreateOptions{})
	require.NoError(w, err)
	if label != "" {
		w.news.Lock()
		w.uids[label] = created.GetUID()
		w.news.Unlock()
	}
	return created
}

// putStatus is putMain for an object with a status.
func putStatus[O api.Object, L api.List](w *world, client api.StatusClient[O, L], object O, set func(from, to O)) {
	w.Helper()
	stored := putMain[O, L](w, client, object, set)
	set(object, stored)
	_, err := client.UpdateStatus(w.Context(), stored, metav1.UpdateOptions{})
	require.NoError(w, err)
}

// remove deletes objects as other programs would, without finalizers.
func (w *world) remove(objects ...api.Object) {
	w.Helper()
	c := w.server.Direct()
	for _, object := range objects {
		switch object.(type) {
		case *v1.Pod:
			removeOne(w, c.Pods(object.GetNamespace()), object.GetName())
		case *v1.PersistentVolumeClaim:
			removeOne(w, c.PersistentVolumeClaims(object.GetNamespace()), object.GetName())
		case *v1.PersistentVolume:
			removeOne(w, c.PersistentVolumes(), object.GetName())
		case *v1.Secret:
			removeOne(w, c.Secrets(object.GetNamespace()), object.GetName())
		case *certificatesv1alpha1.ClusterTrustBundle:
			removeOne(w, c.ClusterTrustBundles(), object.GetName())
		default:
			w.Fatalf("remove %T", object)
		}
	}
}

func removeOne[O api.Object, L api.List](w *world, client api.Client[O, L], name string) {
	w.Helper()
	now := int64(0)
	require.NoError(w, client.Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	last, err := client.Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	require.NoError(w, err)
	last.SetFinalizers(nil)
	_, err = client.Update(w.Context(), last, metav1.UpdateOptions{})
	require.NoError(w, err)
}

// textsOf returns the parts of a change. The caller holds news.
func (w *world) textsOf(change manager.Change) (texts []string) {
	for _, uid := range change.Pods {
		texts = append(texts, "pod "+string(w.labelOf(uid)))
	}
	for _, claim := range change.Claims {
		texts = append(texts, "claim "+claim.String())
	}
	for _, volume := range change.Volumes {
		texts = append(texts, "volume "+volume)
	}
	if change.Everything {
		texts = append(texts, "everything")
	}
	return texts
}

// settle waits until the first list of pods is complete, or the list has failed.
func (w *world) settle() {
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	_, _ = w.Source.Pods(ctx)
	synctest.Wait()
}

// takeChanges returns the reported changes since the last call, sorted, each once.
func (w *world) takeChanges() (texts []string) {
	synctest.Wait()
	w.news.Lock()
	defer w.news.Unlock()
	for _, change := range w.changes {
		texts = append(texts, w.textsOf(change)...)
	}
	w.changes = nil
	slices.Sort(texts)
	return slices.Compact(texts)
}

// takeRemounts returns the pods with changed content since the last call, sorted, each once.
func (w *world) takeRemounts() (pods []string) {
	synctest.Wait()
	w.news.Lock()
	defer w.news.Unlock()
	for _, uid := range w.remounts {
		pods = append(pods, string(w.labelOf(uid)))
	}
	w.remounts = nil
	slices.Sort(pods)
	return slices.Compact(pods)
}

// pods returns the present pods with their phases.
func (w *world) pods() (all []string) {
	w.Helper()
	synctest.Wait()
	pods, err := w.Source.Pods(w.Context())
	require.NoError(w, err)
	for _, pod := range pods {
		same, err := w.Pod(w.Context(), pod.UID)
		require.NoError(w, err)
		require.Same(w, pod, same)
		w.news.Lock()
		all = append(all, fmt.Sprintf("%s %s", w.labelOf(pod.UID), pod.Status.Phase))
		w.news.Unlock()
	}
	slices.Sort(all)
	return all
}

// pod returns a running pod of node-1 whose label is its name.
func pod(name string, volumes ...v1.VolumeSource) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{NodeName: "node-1"},
		Status:     v1.PodStatus{Phase: v1.PodRunning},
	}
	for i, source := range volumes {
		name := fmt.Sprint("v", i)
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
	}
	c := v1.Container{Name: "c", Image: "image"}
	for _, v := range p.Spec.Volumes {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	p.Spec.Containers = []v1.Container{c}
	return p
}

func inPhase(p *v1.Pod, phase v1.PodPhase) *v1.Pod {
	p = p.DeepCopy()
	p.Status.Phase = phase
	return p
}

func byClaim(name string) v1.VolumeSource {
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func byConfigMap(name string) v1.VolumeSource {
	return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}
}

func bySecret(name string) v1.VolumeSource {
	return v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: name}}
}

// claim returns a claim that is bound to a volume; "" is a claim without one.
func claim(name, volume string) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	c.Spec.Resources.Requests = storage("1Gi")
	if c.Spec.VolumeName = volume; volume != "" {
		c.Status.Phase, c.Status.Capacity = v1.ClaimBound, storage("1Gi")
	}
	return c
}

func volumeOf(c *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: c.Spec.VolumeName},
		Spec: v1.PersistentVolumeSpec{
			Capacity: storage("1Gi"), AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			ClaimRef:               &v1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/data"}},
		},
	}
}

func storage(size string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

func configMap(name, value string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"key": value}}
}

func secret(name, value string) *v1.Secret {
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string][]byte{"key": []byte(value)}}
}
