package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/recycler"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// recyclingPlane returns a control plane without leader election, with these options and with the binder alone.
func (r *rig) recyclingPlane(o options) *plane {
	r.Helper()
	o.controllers = selection{binder}
	p, err := newPlane(o, parts{cluster: r.server.Connect("plane"), announce: r.Record}, io.Discard)
	require.NoError(r, err)
	return p
}

// runPods ends the pods of a namespace with success, as a node does, until the end of the test. It records an event
// about each, and returns a function that returns their sources.
func runPods(c *clustertest.Cluster, namespace string) (sources func() []v1.VolumeSource) {
	c.Helper()
	seen := make(chan v1.VolumeSource, 100)
	c.Start(func(ctx context.Context) error {
		pods := c.API.Pods(namespace)
		watcher, err := pods.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		defer watcher.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case change := <-watcher.ResultChan():
				pod, ok := change.Object.(*v1.Pod)
				if !ok || change.Type != watch.Added || pod.Labels[recycler.OwnerLabel] != "volumekit-controlplane" {
					continue
				}
				seen <- pod.Spec.Volumes[0].VolumeSource
				if err := endPod(ctx, c, pod); err != nil {
					return err
				}
			}
		}
	})
	return func() (all []v1.VolumeSource) {
		for len(seen) > 0 {
			all = append(all, <-seen)
		}
		return all
	}
}

// endPod records an event about a pod, and ends the pod with success once the program has reported the event.
func endPod(ctx context.Context, c *clustertest.Cluster, pod *v1.Pod) error {
	event := &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Type:           v1.EventTypeNormal, Reason: "Started", Message: "Started " + pod.Name,
	}
	if _, err := c.API.Events(pod.Namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		return err
	}
	for c.CountEvents("RecyclerPod", "Recycler pod: Started "+pod.Name) == 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Millisecond):
		}
	}
	pod = pod.DeepCopy()
	pod.Status.Phase = v1.PodSucceeded
	_, err := c.API.Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// createReleased creates a volume with the policy Recycle whose claim is gone.
func createReleased(c *clustertest.Cluster, name string, change func(*v1.PersistentVolume)) {
	c.Helper()
	pv := newVolume(name)
	pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRecycle
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: v1.NamespaceDefault, Name: "gone", UID: "gone"}
	change(pv)
	_, err := c.API.PersistentVolumes().Create(c.Context(), pv, metav1.CreateOptions{})
	require.NoError(c, err)
}

// onHostPath makes a volume a host path.
func onHostPath(path string) func(*v1.PersistentVolume) {
	return func(pv *v1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}}
	}
}

// requirePhase waits for the phase of a volume.
func requirePhase(c *clustertest.Cluster, name string, phase v1.PersistentVolumePhase) {
	c.Helper()
	c.Eventually(name+" is not "+string(phase), func() bool {
		pv, err := c.API.PersistentVolumes().Get(c.Context(), name, metav1.GetOptions{})
		return err == nil && pv.Status.Phase == phase
	})
}

// TestRecycling: pods recycle NFS volumes, and host paths that are entries of the directories of the flag.
func TestRecycling(t *testing.T) {
	r := newRig(t)
	stop := r.Start(r.recyclingPlane(options{hostPathRoots: []string{"/data"}}).run)
	sources := runPods(r.Cluster, v1.NamespaceDefault)
	createReleased(r.Cluster, "export", func(*v1.PersistentVolume) {})
	requirePhase(r.Cluster, "export", v1.VolumeAvailable)
	require.Equal(t, []v1.VolumeSource{{NFS: &v1.NFSVolumeSource{Server: "nas", Path: "/"}}}, sources())
	r.RequireEvent("VolumeRecycled")

	createReleased(r.Cluster, "directory", onHostPath("/data/a"))
	requirePhase(r.Cluster, "directory", v1.VolumeAvailable)
	kind := v1.HostPathDirectory
	require.Equal(t, []v1.VolumeSource{{HostPath: &v1.HostPathVolumeSource{Path: "/data/a", Type: &kind}}}, sources())

	for name, path := range map[string]string{"root": "/data", "below": "/data/a/b", "outside": "/etc", "unclean": "/data//a"} {
		createReleased(r.Cluster, name, onHostPath(path))
		requirePhase(r.Cluster, name, v1.VolumeFailed)
	}
	require.Empty(t, sources())
	r.RequireEvent("VolumeFailedRecycle", "-pv-recycler-roots-hostpath")
	stop()
	left, err := r.API.Pods("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, left.Items)
}

// TestRecyclingOfOtherVolumes: a host path is not recycled without the flag, nor in a cluster of several nodes.
func TestRecyclingOfOtherVolumes(t *testing.T) {
	for _, roots := range [][]string{nil, {"/data"}} {
		r := newRig(t)
		r.CreateNode("one", "one")
		r.CreateNode("two", "two")
		r.Start(r.recyclingPlane(options{hostPathRoots: roots}).run)
		sources := runPods(r.Cluster, v1.NamespaceDefault)
		createReleased(r.Cluster, "directory", onHostPath("/data/a"))
		requirePhase(r.Cluster, "directory", v1.VolumeFailed)
		if roots == nil {
			r.RequireEvent("VolumeFailedRecycle", "No recycler plugin found")
		} else {
			r.RequireEvent("VolumeFailedRecycle", "several nodes exist")
		}
		require.Empty(t, sources())
	}
}

// TestDeletionWithoutPlugin: the storage of a static volume is deleted by no plugin of this program.
func TestDeletionWithoutPlugin(t *testing.T) {
	r := newRig(t)
	r.Start(r.recyclingPlane(options{}).run)
	createReleased(r.Cluster, "export", func(pv *v1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
	})
	requirePhase(r.Cluster, "export", v1.VolumeFailed)
	r.RequireEvent("VolumeFailedDelete")
	createReleased(r.Cluster, "provisioned", func(pv *v1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
		pv.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "example.com/nfs"}
	})
	requirePhase(r.Cluster, "provisioned", v1.VolumeReleased)
}

const podTemplate = `apiVersion: v1
kind: Pod
metadata:
  namespace: recycling
spec:
  restartPolicy: Never
  volumes:
  - name: vol
  containers:
  - name: scrub
    image: registry.example.com/scrub
    volumeMounts:
    - name: vol
      mountPath: /scrub
`

// TestPodTemplate: the pods are those of the file, in its namespace.
func TestPodTemplate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(file, []byte(podTemplate), 0o600))
	r := newRig(t)
	_, err := r.API.Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "recycling"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	r.Start(r.recyclingPlane(options{nfs: recycling{template: file}}).run)
	sources := runPods(r.Cluster, "recycling")
	createReleased(r.Cluster, "export", func(*v1.PersistentVolume) {})
	requirePhase(r.Cluster, "export", v1.VolumeAvailable)
	require.Len(t, sources(), 1)
	require.Len(t, r.server.Calls(apitest.Call{Identity: "plane", Verb: apitest.Create, Resource: "pods", Namespace: "recycling"}), 1)
}

// TestBadPodTemplate: the program does not start with a file that has no pod that scrubs.
func TestBadPodTemplate(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct{ text, want string }{
		"missing": {"", "no such file"},
		"claim":   {"apiVersion: v1\nkind: PersistentVolumeClaim\n", "expected a pod"},
		"text":    {"x", "decode"},
		"field":   {strings.Replace(podTemplate, "image:", "picture:", 1), "picture"},
		"volume":  {strings.Replace(podTemplate, "    - name: vol\n", "    - name: other\n", 1), "no container mounts this volume"},
	} {
		file := filepath.Join(dir, name)
		if test.text != "" {
			require.NoError(t, os.WriteFile(file, []byte(test.text), 0o600))
		}
		for _, o := range []options{
			{nfs: recycling{template: file}}, {hostPath: recycling{template: file}, hostPathRoots: []string{"/data"}},
		} {
			_, err := newPlane(o, parts{}, io.Discard)
			require.ErrorContains(t, err, "-pv-recycler-pod-template-filepath-", name)
			require.ErrorContains(t, err, test.want, name)
		}
	}
}

// TestRecyclingFlags: the flags have the names and the defaults of kube-controller-manager.
func TestRecyclingFlags(t *testing.T) {
	parse := func(args ...string) (options, error) {
		return parseOptions(append(slices.Clone(args), "-leader-election=false"), func(string) string { return "" }, io.Discard)
	}
	o, err := parse()
	require.NoError(t, err)
	require.Equal(t, recycling{minimum: 300, increment: 30}, o.nfs)
	require.Equal(t, recycling{minimum: 60, increment: 30}, o.hostPath)
	o, err = parse("-pv-recycler-pod-template-filepath-nfs=n", "-pv-recycler-minimum-timeout-nfs=1", "-pv-recycler-increment-timeout-nfs=2",
		"-pv-recycler-pod-template-filepath-hostpath=h", "-pv-recycler-minimum-timeout-hostpath=3", "-pv-recycler-timeout-increment-hostpath=4",
		"-pv-recycler-roots-hostpath=/data,/srv/b")
	require.NoError(t, err)
	require.Equal(t, recycling{"n", 1, 2}, o.nfs)
	require.Equal(t, recycling{"h", 3, 4}, o.hostPath)
	require.Equal(t, []string{"/data", "/srv/b"}, o.hostPathRoots)
	for arg, want := range map[string]string{
		"-pv-recycler-minimum-timeout-nfs=0":          "-pv-recycler-minimum-timeout-nfs must be between 1 and 2147483647, got 0",
		"-pv-recycler-timeout-increment-hostpath=-1":  "-pv-recycler-timeout-increment-hostpath must be between",
		"-pv-recycler-roots-hostpath=/":               `"/" must be a clean absolute path`,
		"-pv-recycler-roots-hostpath=data":            `"data" must be`,
		"-pv-recycler-roots-hostpath=/data,/data/../": `"/data/../" must be`,
		"-pv-recycler-roots-hostpath=/data,":          `"" must be`,
	} {
		_, err := parse(arg)
		require.ErrorContains(t, err, want, arg)
	}
}

func newVolume(name string) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		AccessModes:            []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Capacity:               v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeSource: v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "nas", Path: "/"}},
	}}
}
