package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// replaced are the controllers of kube-controller-manager that the test compares.
var replaced = []string{binder, claimProtection, volumeProtection, ephemeralVolumes}

// TestKubeSituations takes the same steps on one API server with kube-controller-manager, and on another one
// with this control plane. The end states are equal, but for the differences that are explained. It needs
// kube-controller-manager ("make manager"), and writes the end states to the file VOLUMEKIT_SITUATIONS.
func TestKubeSituations(t *testing.T) {
	if !testbed.Long() {
		t.Skip("it takes minutes: VOLUMEKIT_LONG=1")
	}
	program, err := kubeserver.FindControllerManager()
	if errors.Is(err, fs.ErrNotExist) {
		mounttest.SkipWithout(t, "manager", err)
	}
	require.NoError(t, err)
	ours := endStates(t, func(s *kubeserver.Server, a *arena) {
		p, err := newPlane(options{controllers: replaced}, a.parts, io.Discard)
		require.NoError(t, err)
		a.start(p.run)
	})
	theirs := endStates(t, func(s *kubeserver.Server, a *arena) {
		stop, err := s.StartControllerManager(program, replaced, "--pvclaimbinder-sync-period=1s")
		require.NoError(t, err)
		t.Cleanup(func() { stop() })
	})
	if file := os.Getenv("VOLUMEKIT_SITUATIONS"); file != "" {
		writeStates(t, file, ours, theirs)
	}
	for name := range ours {
		if why := differences[name]; why != "" {
			require.NotEqual(t, theirs[name], ours[name], "%s: no difference any more: %s", name, why)
			continue
		}
		if theirs[name] != ours[name] {
			t.Errorf("%s\n-- kube-controller-manager:\n%s\n-- this control plane:\n%s", name, theirs[name], ours[name])
		}
	}
}

// writeStates writes all end states to a file.
func writeStates(t *testing.T, file string, ours, theirs map[string]string) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		fmt.Fprintf(&text, "# %s\n%s", name, ours[name])
		if theirs[name] != ours[name] {
			fmt.Fprintf(&text, "## kube-controller-manager\n%s", theirs[name])
		}
	}
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
}

// An arena is an API server on which situations take place at the same time.
type arena struct {
	*testing.T
	parts
	ctx  context.Context
	done sync.WaitGroup
}

// start runs a part until the end of the arena.
func (a *arena) start(part func(context.Context) error) {
	a.done.Go(func() {
		if err := part(a.ctx); err != nil {
			a.Error(err)
		}
	})
}

// endStates returns the end states of all situations with the controllers that start starts.
func endStates(t *testing.T, start func(*kubeserver.Server, *arena)) map[string]string {
	t.Helper()
	s := kubeserver.Start(t)
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, BearerToken: s.Token, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA}, QPS: -1})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	recorder := kubeclient.NewRecorder(ctx, clientset, v1.EventSource{Component: "controlplane"})
	a := &arena{T: t, ctx: ctx, parts: parts{cluster: kubeclient.New(clientset), announce: kubeclient.Events(recorder)}}
	defer a.done.Wait()
	defer cancel()
	start(s, a)
	var mu sync.Mutex
	states := map[string]string{}
	play := func(n int, name string, steps func(*scene)) {
		c := &scene{a, ctx, clientset, fmt.Sprintf("s%d-", n), fmt.Sprintf("scene-%d", n)}
		c.must(clientset.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}, metav1.CreateOptions{}))
		c.class("own", "kubernetes.io/no-provisioner")
		c.settle()
		steps(c)
		state := c.settle()
		c.tidy()
		mu.Lock()
		defer mu.Unlock()
		states[name] = state
	}
	var playing sync.WaitGroup
	names := slices.Sorted(maps.Keys(situations))
	for n, name := range names {
		playing.Go(func() { play(n, name, situations[name]) })
	}
	playing.Wait()
	for n, name := range slices.Sorted(maps.Keys(alone)) {
		play(len(names)+n, name, alone[name])
	}
	return states
}

// A scene is the place of one situation: a namespace, and a prefix of the names of volumes and classes.
type scene struct {
	*arena
	ctx       context.Context
	clientset *kubernetes.Clientset
	prefix    string
	namespace string
}

// tidy deletes the volumes of the scene by force: those without a class concern later situations.
func (c *scene) tidy() {
	volumes, err := c.cluster.PersistentVolumes().List(c.ctx, metav1.ListOptions{})
	c.must(nil, err)
	for _, pv := range volumes.Items {
		if strings.HasPrefix(pv.Name, c.prefix) {
			c.loseVolume(strings.TrimPrefix(pv.Name, c.prefix))
		}
	}
}

// must ends the situation if a call has failed.
func (c *scene) must(_ any, err error) {
	if err != nil && !apierrors.IsNotFound(err) {
		c.Errorf("%s: %v", c.namespace, err)
	}
}

// settle waits until no object of the scene has changed for a while, and returns their states. The pause is
// longer than a period of kube-controller-manager's binder.
func (c *scene) settle() (state string) {
	last, since := "", time.Now()
	for c.ctx.Err() == nil && time.Since(since) < 3*time.Second {
		if state = c.state(); state != last {
			last, since = state, time.Now()
		}
		time.Sleep(100 * time.Millisecond)
	}
	return state
}

// state returns the state of all objects of the scene as text.
func (c *scene) state() string {
	var lines []string
	claims, err := c.cluster.PersistentVolumeClaims(c.namespace).List(c.ctx, metav1.ListOptions{})
	c.must(nil, err)
	for _, claim := range claims.Items {
		class := "none"
		if claim.Spec.StorageClassName != nil {
			class = fmt.Sprintf("%q", *claim.Spec.StorageClassName)
		}
		lines = append(lines, fmt.Sprintf("claim %s: %s %s volume=%s class=%s capacity=%s modes=%v attributes=%v owner=%t %s", claim.Name, phaseOf(claim.DeletionTimestamp), claim.Status.Phase,
			claim.Spec.VolumeName, class, claim.Status.Capacity.Storage(), claim.Status.AccessModes, text(claim.Status.CurrentVolumeAttributesClassName), len(claim.OwnerReferences) > 0, metaOf(&claim)))
	}
	volumes, err := c.cluster.PersistentVolumes().List(c.ctx, metav1.ListOptions{})
	c.must(nil, err)
	for _, pv := range volumes.Items {
		if !strings.HasPrefix(pv.Name, c.prefix) {
			continue
		}
		ref := "none"
		if r := pv.Spec.ClaimRef; r != nil {
			claim, err := c.cluster.PersistentVolumeClaims(r.Namespace).Get(c.ctx, r.Name, metav1.GetOptions{})
			ref = fmt.Sprintf("%s uid=%t lives=%t", r.Name, r.UID != "", err == nil && claim.UID == r.UID)
		}
		lines = append(lines, fmt.Sprintf("volume %s: %s %s ref=[%s] message=%t %s", pv.Name, phaseOf(pv.DeletionTimestamp), pv.Status.Phase, ref, pv.Status.Message != "", metaOf(&pv)))
	}
	return strings.ReplaceAll(strings.Join(append(lines, c.events()...), "\n")+"\n", c.prefix, "")
}

// events returns the reasons of the events of the scene, each once.
func (c *scene) events() (lines []string) {
	for _, namespace := range []string{c.namespace, v1.NamespaceDefault} {
		list, err := c.clientset.CoreV1().Events(namespace).List(c.ctx, metav1.ListOptions{})
		c.must(nil, err)
		for _, event := range list.Items {
			if object := event.InvolvedObject; object.Namespace == c.namespace || strings.HasPrefix(object.Name, c.prefix) {
				lines = append(lines, fmt.Sprintf("event of %s: %s %s", object.Name, event.Type, event.Reason))
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func phaseOf(deleted *metav1.Time) string {
	if deleted != nil {
		return "in deletion,"
	}
	return "lives,"
}

func text(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

// metaOf returns the finalizers and the annotations of an object.
func metaOf(object metav1.Object) string {
	var annotations []string
	for name, value := range object.GetAnnotations() {
		annotations = append(annotations, name+"="+value)
	}
	slices.Sort(annotations)
	finalizers := slices.Sorted(slices.Values(object.GetFinalizers()))
	return fmt.Sprintf("finalizers=%v annotations=%v", finalizers, annotations)
}

// claim creates a claim of 5 GiB with ReadWriteOnce and the class of the scene, after changes.
func (c *scene) claim(name string, changes ...func(*v1.PersistentVolumeClaim)) {
	class := c.prefix + "own"
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Spec: v1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, Resources: v1.VolumeResourceRequirements{Requests: sized("5Gi")},
	}}
	for _, change := range changes {
		change(claim)
	}
	c.must(c.cluster.PersistentVolumeClaims(c.namespace).Create(c.ctx, claim, metav1.CreateOptions{}))
}

// volume creates a volume of 5 GiB with ReadWriteOnce and the class of the scene, after changes.
func (c *scene) volume(name string, changes ...func(*v1.PersistentVolume)) {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.prefix + name}, Spec: v1.PersistentVolumeSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, Capacity: sized("5Gi"), StorageClassName: c.prefix + "own",
		PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource:        v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "driver.example.com", VolumeHandle: c.prefix + name}},
	}}
	for _, change := range changes {
		change(pv)
	}
	c.must(c.cluster.PersistentVolumes().Create(c.ctx, pv, metav1.CreateOptions{}))
}

// class creates a class of a provisioner.
func (c *scene) class(name, provisioner string, changes ...func(*storagev1.StorageClass)) {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: c.prefix + name}, Provisioner: provisioner}
	for _, change := range changes {
		change(class)
	}
	c.must(c.cluster.StorageClasses().Create(c.ctx, class, metav1.CreateOptions{}))
}

// editClaim and editVolume change an object until no other writer interferes.
func (c *scene) editClaim(name string, change func(*v1.PersistentVolumeClaim)) {
	claims := c.cluster.PersistentVolumeClaims(c.namespace)
	edit(c, func() (*v1.PersistentVolumeClaim, error) { return claims.Get(c.ctx, name, metav1.GetOptions{}) }, func(claim *v1.PersistentVolumeClaim) error {
		change(claim)
		_, err := claims.Update(c.ctx, claim, metav1.UpdateOptions{})
		return err
	})
}

func (c *scene) editVolume(name string, change func(*v1.PersistentVolume)) {
	volumes := c.cluster.PersistentVolumes()
	edit(c, func() (*v1.PersistentVolume, error) { return volumes.Get(c.ctx, c.prefix+name, metav1.GetOptions{}) }, func(pv *v1.PersistentVolume) error {
		change(pv)
		_, err := volumes.Update(c.ctx, pv, metav1.UpdateOptions{})
		return err
	})
}

func edit[O api.Object](c *scene, get func() (O, error), update func(O) error) {
	for {
		object, err := get()
		if err == nil {
			err = update(object)
		}
		if !apierrors.IsConflict(err) {
			c.must(nil, err)
			return
		}
	}
}

func (c *scene) deleteClaim(name string) {
	c.must(nil, c.cluster.PersistentVolumeClaims(c.namespace).Delete(c.ctx, name, metav1.DeleteOptions{}))
}

func (c *scene) deleteVolume(name string) {
	c.must(nil, c.cluster.PersistentVolumes().Delete(c.ctx, c.prefix+name, metav1.DeleteOptions{}))
}

// loseVolume deletes a volume by force.
func (c *scene) loseVolume(name string) {
	c.deleteVolume(name)
	c.editVolume(name, func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
}

// pod creates a pod on a node with a claim, or with an ephemeral volume "data".
func (c *scene) pod(name, claim string) {
	class := c.prefix + "own"
	pod := newPod(claim, "data", v1.PersistentVolumeClaimSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, Resources: v1.VolumeResourceRequirements{Requests: sized("5Gi")}, StorageClassName: &class,
	})
	pod.Name, pod.Namespace = name, c.namespace
	if claim == "" {
		pod.Spec.Volumes = pod.Spec.Volumes[1:]
	} else {
		pod.Spec.Volumes = pod.Spec.Volumes[:1]
	}
	c.must(c.cluster.Pods(c.namespace).Create(c.ctx, pod, metav1.CreateOptions{}))
}

func (c *scene) deletePod(name string) {
	c.must(nil, c.cluster.Pods(c.namespace).Delete(c.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}

// bound makes a volume and a claim that are bound to each other.
func (c *scene) bound(changes ...func(*v1.PersistentVolume)) {
	c.volume("pv", changes...)
	c.claim("claim")
	c.settle()
}

func sized(size string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

// uidOf returns the UID of a claim.
func (c *scene) uidOf(name string) types.UID {
	claim, err := c.cluster.PersistentVolumeClaims(c.namespace).Get(c.ctx, name, metav1.GetOptions{})
	c.must(nil, err)
	return claim.UID
}
