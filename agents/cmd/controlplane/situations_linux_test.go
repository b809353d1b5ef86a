package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// bindingSituations are those of the controllers that bind, provision, reclaim and protect.
var bindingSituations = comparison{
	controllers: []string{binder, claimProtection, volumeProtection, ephemeralVolumes},
	arguments:   []string{"--pvclaimbinder-sync-period=1s"},
	situations:  situations, alone: alone, differences: differences, least: 102,
	prepare: func(c *scene) { c.class("own", "kubernetes.io/no-provisioner") },
	probe:   func(c *scene) { c.volume("pv"); c.claim("claim") }, sign: "claim claim: lives, Bound",
	describe: (*scene).describeBinding,
	// longer than a period of kube-controller-manager's binder
	quiet: 5 * time.Second,
	waits: true,
	tidy:  (*scene).loseVolumes,
}

// TestKubeSituations compares the states of claims and volumes.
func TestKubeSituations(t *testing.T) { bindingSituations.run(t) }

// A scene is the place of one situation: a namespace, and a prefix of the names of volumes and classes.
type scene struct {
	*arena
	prefix    string
	namespace string
}

// loseVolumes deletes the volumes of the scene by force: those without a class concern later situations.
func (c *scene) loseVolumes() {
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

// settle waits until no object of the scene has changed for a while, and returns their states.
func (c *scene) settle() (state string) {
	last, since := "", time.Now()
	for c.ctx.Err() == nil && time.Since(since) < c.quiet {
		if state = c.state(); state != last {
			last, since = state, time.Now()
		}
		time.Sleep(c.quiet / 30)
	}
	return state
}

// state returns the states of all objects of the scene as text, without the prefix of the scene.
func (c *scene) state() string {
	return strings.ReplaceAll(strings.Join(c.describe(c), "\n")+"\n", c.prefix, "")
}

// describeBinding returns the states of the claims and the volumes, and the events.
func (c *scene) describeBinding() (lines []string) {
	uids := map[string]types.UID{}
	for _, claim := range c.claims() {
		class := "none"
		if claim.Spec.StorageClassName != nil {
			class = fmt.Sprintf("%q", *claim.Spec.StorageClassName)
		}
		uids[claim.Name] = claim.UID
		lines = append(lines, fmt.Sprintf("claim %s: %s %s volume=%s class=%s capacity=%s modes=%v attributes=%v owner=%t %s", claim.Name, phaseOf(claim.DeletionTimestamp), claim.Status.Phase,
			claim.Spec.VolumeName, class, claim.Status.Capacity.Storage(), claim.Status.AccessModes, text(claim.Status.CurrentVolumeAttributesClassName), len(claim.OwnerReferences) > 0, metaOf(&claim)))
	}
	for _, pv := range c.volumes() {
		ref := "none"
		if r := pv.Spec.ClaimRef; r != nil {
			ref = fmt.Sprintf("%s uid=%t lives=%t", r.Name, r.UID != "", r.UID != "" && uids[r.Name] == r.UID)
		}
		lines = append(lines, fmt.Sprintf("volume %s: %s %s ref=[%s] message=%t %s", pv.Name, phaseOf(pv.DeletionTimestamp), pv.Status.Phase, ref, pv.Status.Message != "", metaOf(&pv)))
	}
	return append(lines, c.events()...)
}

// events returns the reasons of the events of the scene, each once: those about objects in its namespace, and about
// its volumes.
func (c *scene) events() (lines []string) {
	for _, event := range c.snapshot().events {
		if object := event.InvolvedObject; object.Namespace == c.namespace || object.Namespace == "" && strings.HasPrefix(object.Name, c.prefix) {
			lines = append(lines, fmt.Sprintf("event of %s: %s %s", object.Name, event.Type, event.Reason))
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
	time.Sleep(c.quiet / 4) // a controller that sees a claim before its volume has an event about it
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

// pod creates a pod on a node, after changes, with a claim or with an ephemeral volume "data".
func (c *scene) pod(name, claim string, changes ...func(*v1.Pod)) {
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
	for _, change := range changes {
		change(pod)
	}
	c.must(c.cluster.Pods(c.namespace).Create(c.ctx, pod, metav1.CreateOptions{}))
}

func (c *scene) deletePod(name string) {
	c.must(nil, c.cluster.Pods(c.namespace).Delete(c.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}

// endRecycling waits for a pod that recycles the export or the host path of a volume, and ends it with success.
func (c *scene) endRecycling(volume string) {
	pods := c.cluster.Pods(v1.NamespaceDefault)
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until) && c.ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		list, err := pods.List(c.ctx, metav1.ListOptions{})
		c.must(nil, err)
		for _, pod := range list.Items {
			source := pod.Spec.Volumes[0]
			if source.NFS != nil && source.NFS.Path == "/"+c.prefix+volume || source.HostPath != nil && source.HostPath.Path == "/"+c.prefix+volume {
				pod.Status.Phase = v1.PodSucceeded
				c.must(pods.UpdateStatus(c.ctx, &pod, metav1.UpdateOptions{}))
				return
			}
		}
	}
	c.Errorf("%s: no pod recycles %s", c.namespace, volume)
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
