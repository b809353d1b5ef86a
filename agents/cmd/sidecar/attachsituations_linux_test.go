package main

import (
	"fmt"
	"maps"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An attachScene is the place of one situation: a namespace, a volume of its name, and the nodes a and b.
type attachScene struct {
	*scene
	driver *attachingDriver
}

// Finalizers of other programs.
const (
	heldFinalizer      = "example.com/held"
	protectedFinalizer = "kubernetes.io/pv-protection"
)

// disk creates the volume, after changes. The API server adds a finalizer for kube-controller-manager, which does not run:
// the volume has it no longer then.
func (c *attachScene) disk(changes ...func(*v1.PersistentVolume)) {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: c.volumeSpec()}
	pv.Spec.Capacity, pv.Spec.PersistentVolumeReclaimPolicy = sized("5Gi"), v1.PersistentVolumeReclaimRetain
	for _, change := range changes {
		change(pv)
	}
	_, err := c.admin.CoreV1().PersistentVolumes().Create(c.ctx, pv, metav1.CreateOptions{})
	c.must(err)
	c.patchVolume(`{"metadata": {"$deleteFromPrimitiveList/finalizers": ["` + protectedFinalizer + `"]}}`)
}

// volumeSpec returns the spec of a volume of the driver, also for an inline one.
func (c *attachScene) volumeSpec() v1.PersistentVolumeSpec {
	return v1.PersistentVolumeSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
			Driver: driverName, VolumeHandle: c.name, VolumeAttributes: map[string]string{"tier": "fast"},
		}},
	}
}

func (c *attachScene) patchVolume(patch string) {
	_, err := c.admin.CoreV1().PersistentVolumes().Patch(c.ctx, c.name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	c.must(err)
}

func (c *attachScene) deleteVolume() {
	c.must(c.admin.CoreV1().PersistentVolumes().Delete(c.ctx, c.name, metav1.DeleteOptions{}))
}

// loseVolume deletes the volume in spite of its finalizers.
func (c *attachScene) loseVolume() {
	c.deleteVolume()
	c.patchVolume(`{"metadata": {"finalizers": null}}`)
}

// attach creates the VolumeAttachment for a node, after changes. It waits until an earlier one has ended.
func (c *attachScene) attach(node string, changes ...func(*storagev1.VolumeAttachment)) {
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: c.name + "-" + node}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: driverName, NodeName: c.name + "-" + node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &c.name},
	}}
	for _, change := range changes {
		change(va)
	}
	c.await(func() bool {
		_, err := c.admin.StorageV1().VolumeAttachments().Create(c.ctx, va, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			c.must(err)
			return true
		}
		return false
	})
}

// detach deletes the VolumeAttachment for a node.
func (c *attachScene) detach(node string) {
	c.must(c.admin.StorageV1().VolumeAttachments().Delete(c.ctx, c.name+"-"+node, metav1.DeleteOptions{}))
}

// loseAttachment deletes the VolumeAttachment for a node in spite of its finalizers.
func (c *attachScene) loseAttachment(node string) {
	c.detach(node)
	c.removeFinalizers(node)
}

// removeFinalizers removes all finalizers of the VolumeAttachment for a node.
func (c *attachScene) removeFinalizers(node string) {
	c.patchAttachment(node, `{"metadata": {"finalizers": null}}`)
}

// patchAttachment patches the VolumeAttachment for a node, or its subresource.
func (c *attachScene) patchAttachment(node, patch string, subresource ...string) {
	_, err := c.admin.StorageV1().VolumeAttachments().Patch(c.ctx, c.name+"-"+node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	c.must(err)
}

// markAttached sets the status of the VolumeAttachment for a node.
func (c *attachScene) markAttached(node string) {
	c.patchAttachment(node, `{"status": {"attached": true}}`, "status")
}

func (c *attachScene) markDetached(node string) {
	c.patchAttachment(node, `{"status": {"attached": false}}`, "status")
}

// registerNode registers the driver on a node with an ID.
func (c *attachScene) registerNode(node, id string) {
	c.createNode(node, storagev1.CSINodeDriver{Name: driverName, NodeID: id})
}

// createNode replaces the CSINode of a node.
func (c *attachScene) createNode(node string, drivers ...storagev1.CSINodeDriver) {
	c.deleteNode(node)
	_, err := c.admin.StorageV1().CSINodes().Create(c.ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: c.name + "-" + node}, Spec: storagev1.CSINodeSpec{Drivers: drivers},
	}, metav1.CreateOptions{})
	c.must(err)
}

// deleteNode deletes the CSINode of a node, if it exists.
func (c *attachScene) deleteNode(node string) {
	err := c.admin.StorageV1().CSINodes().Delete(c.ctx, c.name+"-"+node, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		c.must(err)
	}
}

// createSecret creates the Secret of the volume.
func (c *attachScene) createSecret() {
	_, err := c.admin.CoreV1().Secrets(c.name).Create(c.ctx, &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key"}, StringData: map[string]string{"user": "web", "password": "hunter2-hunter2"},
	}, metav1.CreateOptions{})
	c.must(err)
}

func (c *attachScene) deleteSecret() {
	c.must(c.admin.CoreV1().Secrets(c.name).Delete(c.ctx, "key", metav1.DeleteOptions{}))
}

// publishes sets the outcome of the next calls that publish a volume: a code a number of times, 0 for always.
func (c *attachScene) publishes(code codes.Code, times int) {
	c.driver.edit(c.name, func(v *attachingVolume) { v.publish = callOutcome{outcome: outcome{code, times}} })
}

// publishesInSpiteOf is publishes for calls that have published the volume when they fail.
func (c *attachScene) publishesInSpiteOf(code codes.Code, times int) {
	c.driver.edit(c.name, func(v *attachingVolume) {
		v.publish = callOutcome{outcome: outcome{code, times}, hasEffect: true}
	})
}

// publishesAfter sets the duration of a number of next calls that publish a volume.
func (c *attachScene) publishesAfter(delay time.Duration, times int) {
	c.driver.edit(c.name, func(v *attachingVolume) { v.publish.delay, v.publish.delays = delay, times })
}

// unpublishes is publishes for calls that unpublish a volume.
func (c *attachScene) unpublishes(code codes.Code, times int) {
	c.driver.edit(c.name, func(v *attachingVolume) { v.unpublish = callOutcome{outcome: outcome{code, times}} })
}

// unpublishesInSpiteOf is unpublishes for calls that have unpublished the volume when they fail.
func (c *attachScene) unpublishesInSpiteOf(code codes.Code, times int) {
	c.driver.edit(c.name, func(v *attachingVolume) {
		v.unpublish = callOutcome{outcome: outcome{code, times}, hasEffect: true}
	})
}

// publishesWith sets the publish context of the volume.
func (c *attachScene) publishesWith(context map[string]string) {
	c.driver.edit(c.name, func(v *attachingVolume) { v.context = context })
}

// loseAtStorage makes the storage unpublish the volume without a call.
func (c *attachScene) loseAtStorage() {
	c.driver.edit(c.name, func(v *attachingVolume) { v.published = nil })
}

// attachAtStorage makes the storage publish the volume to the node a without a call.
func (c *attachScene) attachAtStorage() {
	c.driver.edit(c.name, func(v *attachingVolume) { v.publishTo(target{c.name, "id-a"}) })
}

// awaitList waits until the driver has received another call of ListVolumes.
func (c *attachScene) awaitList() {
	before := c.driver.lists.Load()
	c.await(func() bool { return c.driver.lists.Load() > before })
}

// awaitCall waits until the driver has received a call.
func (c *attachScene) awaitCall() {
	c.await(func() (isReceived bool) {
		c.driver.edit(c.name, func(v *attachingVolume) { isReceived = len(v.calls) > 0 })
		return isReceived
	})
}

// attached attaches the volume to the node a, after changes, and waits for the end.
func (c *attachScene) attached(changes ...func(*v1.PersistentVolume)) {
	c.disk(changes...)
	c.attach("a")
	c.settle()
}

// detached detaches the volume from the node a, and waits for the end.
func (c *attachScene) detached() {
	c.detach("a")
	c.settle()
}

// fails lets each publishing of the volume fail, attaches it, and waits for the end.
func (c *attachScene) fails(code codes.Code) {
	c.publishes(code, 0)
	c.attached()
}

// Changes of volumes.
func onHost(pv *v1.PersistentVolume) {
	pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/disk"}}
}

func ofOtherHandle(pv *v1.PersistentVolume) { pv.Spec.CSI.VolumeHandle += "-other" }

func isReadOnly(pv *v1.PersistentVolume) { pv.Spec.CSI.ReadOnly = true }

func isHeld(pv *v1.PersistentVolume) { pv.Finalizers = []string{heldFinalizer} }

func permits(modes ...v1.PersistentVolumeAccessMode) func(*v1.PersistentVolume) {
	return func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = modes }
}

func mountedWithOptions(pv *v1.PersistentVolume) {
	pv.Spec.CSI.FSType, pv.Spec.MountOptions = "ext4", []string{"noatime", "discard"}
}

func withPublishSecret(pv *v1.PersistentVolume) {
	pv.Spec.CSI.ControllerPublishSecretRef = &v1.SecretReference{Namespace: pv.Name, Name: "key"}
}

// Changes of VolumeAttachments.
func heldByUser(va *storagev1.VolumeAttachment) { va.Finalizers = []string{heldFinalizer} }

func ofOtherAttacher(va *storagev1.VolumeAttachment) { va.Spec.Attacher = "other.example.com" }

func named(name string) func(*storagev1.VolumeAttachment) {
	return func(va *storagev1.VolumeAttachment) { va.Name += "-" + name }
}

// inline makes the volume an inline one.
func (c *attachScene) inline(va *storagev1.VolumeAttachment) {
	spec := c.volumeSpec()
	va.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &spec}
}

// attachSituations returns steps of users, drivers and nodes, by name.
func attachSituations() map[string]func(*attachScene) {
	all := map[string]func(*attachScene){}
	for _, situations := range []map[string]func(*attachScene){attachCalls, attachVolumes, attachNodes, attachObjects} {
		maps.Copy(all, situations)
	}
	for _, code := range []codes.Code{
		codes.Internal, codes.InvalidArgument, codes.NotFound, codes.Unavailable, codes.DeadlineExceeded, codes.FailedPrecondition,
		codes.ResourceExhausted, codes.Aborted,
	} {
		all[fmt.Sprint("attach fails: ", code)] = func(c *attachScene) { c.fails(code) }
		all[fmt.Sprint("attach fails at first: ", code)] = func(c *attachScene) { c.publishes(code, 2); c.attached() }
		all[fmt.Sprint("attach fails, then detached: ", code)] = func(c *attachScene) { c.fails(code); c.detach("a") }
	}
	for _, code := range []codes.Code{codes.Internal, codes.NotFound, codes.DeadlineExceeded} {
		all[fmt.Sprint("detach fails: ", code)] = func(c *attachScene) { c.attached(); c.unpublishes(code, 0); c.detach("a") }
		all[fmt.Sprint("detach fails at first: ", code)] = func(c *attachScene) { c.attached(); c.unpublishes(code, 2); c.detach("a") }
	}
	return all
}

// attachCalls are situations about the calls of the driver.
var attachCalls = map[string]func(*attachScene){
	"attach": func(c *attachScene) { c.attached() },
	"detach": func(c *attachScene) { c.attached(); c.detach("a") },
	"publish context": func(c *attachScene) {
		c.publishesWith(map[string]string{"device": "/dev/sdx", "lun": "3"})
		c.attached()
	},
	"publish context, then detached, attachment is held": func(c *attachScene) {
		c.publishesWith(map[string]string{"device": "/dev/sdx"})
		c.disk()
		c.attach("a", heldByUser)
		c.settle()
		c.detach("a")
	},
	"read-only volume":            func(c *attachScene) { c.attached(isReadOnly) },
	"block volume":                func(c *attachScene) { c.attached(isBlock) },
	"file system and options":     func(c *attachScene) { c.attached(mountedWithOptions) },
	"many writers":                func(c *attachScene) { c.attached(permits(v1.ReadWriteMany)) },
	"many readers":                func(c *attachScene) { c.attached(permits(v1.ReadOnlyMany)) },
	"one pod":                     func(c *attachScene) { c.attached(permits(v1.ReadWriteOncePod)) },
	"writers and readers":         func(c *attachScene) { c.attached(permits(v1.ReadOnlyMany, v1.ReadWriteMany)) },
	"one writer, or many readers": func(c *attachScene) { c.attached(permits(v1.ReadWriteOnce, v1.ReadOnlyMany)) },
	"one writer, or many readers, then detached": func(c *attachScene) {
		c.attached(permits(v1.ReadWriteOnce, v1.ReadOnlyMany))
		c.detach("a")
	},
	// Secrets.
	"secret":                           func(c *attachScene) { c.createSecret(); c.attached(withPublishSecret) },
	"secret, then detached":            func(c *attachScene) { c.createSecret(); c.attached(withPublishSecret); c.detach("a") },
	"secret is missing":                func(c *attachScene) { c.attached(withPublishSecret) },
	"secret comes later":               func(c *attachScene) { c.attached(withPublishSecret); c.createSecret() },
	"secret is missing, then detached": func(c *attachScene) { c.attached(withPublishSecret); c.detach("a") },
	"secret goes, then detached": func(c *attachScene) {
		c.createSecret()
		c.attached(withPublishSecret)
		c.deleteSecret()
		c.detach("a")
	},
	"secret goes and comes, then detached": func(c *attachScene) {
		c.createSecret()
		c.attached(withPublishSecret)
		c.deleteSecret()
		c.detached()
		c.createSecret()
	},
	// Unknown outcomes.
	"attached in spite of an error":              func(c *attachScene) { c.publishesInSpiteOf(codes.DeadlineExceeded, 2); c.attached() },
	"attached in spite of errors, then detached": func(c *attachScene) { c.publishesInSpiteOf(codes.DeadlineExceeded, 0); c.attached(); c.detach("a") },
	"detached in spite of an error": func(c *attachScene) {
		c.attached()
		c.unpublishesInSpiteOf(codes.DeadlineExceeded, 2)
		c.detach("a")
	},
	"call takes too long": func(c *attachScene) { c.publishesAfter(8*time.Second, 2); c.attached() },
	"detached during a call": func(c *attachScene) {
		c.publishesAfter(3*time.Second, 1)
		c.disk()
		c.attach("a")
		c.awaitCall()
		c.detach("a")
	},
	"detached during a call that fails": func(c *attachScene) {
		c.publishesInSpiteOf(codes.Unavailable, 0)
		c.publishesAfter(3*time.Second, 1)
		c.disk()
		c.attach("a")
		c.awaitCall()
		c.detach("a")
	},
}

// attachVolumes are situations about volumes.
var attachVolumes = map[string]func(*attachScene){
	"volume is missing":                       func(c *attachScene) { c.attach("a") },
	"volume comes later":                      func(c *attachScene) { c.attach("a"); c.settle(); c.disk() },
	"volume is missing, then detached":        func(c *attachScene) { c.attach("a"); c.settle(); c.detach("a") },
	"volume of another driver":                func(c *attachScene) { c.attached(ofOtherDriver) },
	"volume of another driver, then detached": func(c *attachScene) { c.attached(ofOtherDriver); c.detach("a") },
	"volume on the host":                      func(c *attachScene) { c.attached(onHost) },
	"volume on the host, then detached":       func(c *attachScene) { c.attached(onHost); c.detach("a") },
	"volume is deleted":                       func(c *attachScene) { c.attached(); c.deleteVolume() },
	"volume is deleted, then detached":        func(c *attachScene) { c.attached(); c.deleteVolume(); c.settle(); c.detach("a") },
	"detached, volume is deleted":             func(c *attachScene) { c.attached(); c.detached(); c.deleteVolume() },
	"volume is lost, then detached":           func(c *attachScene) { c.attached(); c.loseVolume(); c.settle(); c.detach("a") },
	"volume is replaced, then detached": func(c *attachScene) {
		c.attached()
		c.loseVolume()
		c.disk(ofOtherHandle)
		c.settle()
		c.detach("a")
	},
	"attach fails, volume is replaced": func(c *attachScene) {
		c.publishesInSpiteOf(codes.DeadlineExceeded, 0)
		c.attached()
		c.loseVolume()
		c.disk(ofOtherHandle)
		c.publishes(codes.OK, 0)
	},
	"volume is being deleted": func(c *attachScene) { c.disk(isHeld); c.deleteVolume(); c.settle(); c.attach("a") },
	"volume is being deleted, then detached": func(c *attachScene) {
		c.disk(isHeld)
		c.deleteVolume()
		c.settle()
		c.attach("a")
		c.settle()
		c.detach("a")
	},
	"volume is being deleted, comes again": func(c *attachScene) {
		c.disk(isHeld)
		c.deleteVolume()
		c.settle()
		c.attach("a")
		c.settle()
		c.patchVolume(`{"metadata": {"finalizers": null}}`)
		c.disk()
	},
	"attach fails, volume is deleted": func(c *attachScene) {
		c.fails(codes.Internal)
		c.deleteVolume()
		c.wait()
		c.publishes(codes.OK, 0)
	},
	"finalizer of the volume is removed": func(c *attachScene) { c.attached(); c.patchVolume(`{"metadata": {"finalizers": null}}`) },
	"inline volume":                      func(c *attachScene) { c.attach("a", c.inline) },
	"inline volume, then detached":       func(c *attachScene) { c.attach("a", c.inline); c.settle(); c.detach("a") },
}

// attachNodes are situations about nodes.
var attachNodes = map[string]func(*attachScene){
	"two nodes":                  func(c *attachScene) { c.attached(); c.attach("b") },
	"two nodes, one is detached": func(c *attachScene) { c.attached(); c.attach("b"); c.settle(); c.detach("a") },
	"two nodes, volume is deleted": func(c *attachScene) {
		c.attached()
		c.attach("b")
		c.settle()
		c.deleteVolume()
		c.detach("a")
	},
	"node is missing":                func(c *attachScene) { c.deleteNode("a"); c.attached() },
	"node comes later":               func(c *attachScene) { c.deleteNode("a"); c.attached(); c.registerNode("a", "id-a") },
	"node is missing, then detached": func(c *attachScene) { c.deleteNode("a"); c.attached(); c.detach("a") },
	"node without the driver":        func(c *attachScene) { c.createNode("a"); c.attached() },
	"driver is registered later":     func(c *attachScene) { c.createNode("a"); c.attached(); c.registerNode("a", "id-a") },
	"node ID changes":                func(c *attachScene) { c.attached(); c.registerNode("a", "id-new") },
	"node ID changes, then detached": func(c *attachScene) {
		c.attached()
		c.registerNode("a", "id-new")
		c.settle()
		c.detach("a")
	},
	"attach fails, node ID changes": func(c *attachScene) {
		c.publishesInSpiteOf(codes.DeadlineExceeded, 0)
		c.attached()
		c.registerNode("a", "id-new")
		c.publishes(codes.OK, 0)
	},
	"attach fails, node goes":    func(c *attachScene) { c.fails(codes.Internal); c.deleteNode("a"); c.wait() },
	"node goes, then detached":   func(c *attachScene) { c.attached(); c.deleteNode("a"); c.settle(); c.detach("a") },
	"driver goes, then detached": func(c *attachScene) { c.attached(); c.createNode("a"); c.settle(); c.detach("a") },
}

// attachObjects are situations about VolumeAttachments.
var attachObjects = map[string]func(*attachScene){
	"attached again":         func(c *attachScene) { c.attached(); c.detached(); c.attach("a") },
	"attached again at once": func(c *attachScene) { c.attached(); c.detach("a"); c.attach("a") },
	"attach fails, attached again": func(c *attachScene) {
		c.fails(codes.DeadlineExceeded)
		c.detach("a")
		c.publishes(codes.OK, 0)
		c.attach("a")
	},
	"two attachments":                  func(c *attachScene) { c.attached(); c.attach("a", named("two")) },
	"two attachments, one is detached": func(c *attachScene) { c.attached(); c.attach("a", named("two")); c.settle(); c.detach("a") },
	"finalizer is removed":             func(c *attachScene) { c.attached(); c.removeFinalizers("a") },
	"finalizer is removed, then detached": func(c *attachScene) {
		c.attached()
		c.removeFinalizers("a")
		c.settle()
		c.detach("a")
	},
	"detach fails, attachment is lost": func(c *attachScene) {
		c.attached()
		c.unpublishes(codes.Internal, 0)
		c.detached()
		c.removeFinalizers("a")
	},
	"detach fails, attachment is lost, attached again": func(c *attachScene) {
		c.attached()
		c.unpublishes(codes.Internal, 0)
		c.detached()
		c.removeFinalizers("a")
		c.attach("a")
	},
	"marked as detached":               func(c *attachScene) { c.attached(); c.markDetached("a") },
	"attach fails, marked as attached": func(c *attachScene) { c.fails(codes.Internal); c.markAttached("a"); c.wait() },
	"attach fails, marked as attached, then detached": func(c *attachScene) {
		c.fails(codes.Internal)
		c.markAttached("a")
		c.wait()
		c.detach("a")
	},
	"attachment of another attacher": func(c *attachScene) { c.disk(); c.attach("a", ofOtherAttacher) },
	"attachment of another attacher, volume is deleted": func(c *attachScene) {
		c.attached()
		c.attach("b", ofOtherAttacher)
		c.detached()
		c.deleteVolume()
	},
}

// attachInterruptions are situations in which the program restarts.
var attachInterruptions = map[string]interruption[*attachScene]{
	"restart":            {before: func(c *attachScene) { c.attached() }},
	"attached meanwhile": {before: func(c *attachScene) { c.disk() }, stopped: func(c *attachScene) { c.attach("a") }},
	"detached meanwhile": {before: func(c *attachScene) { c.attached() }, stopped: func(c *attachScene) { c.detach("a") }},
	"detached after the restart": {
		before: func(c *attachScene) { c.attached() }, after: func(c *attachScene) { c.detach("a") },
	},
	"volume comes meanwhile": {before: func(c *attachScene) { c.attach("a") }, stopped: func(c *attachScene) { c.disk() }},
	"volume is deleted meanwhile": {
		before: func(c *attachScene) { c.attached() }, stopped: func(c *attachScene) { c.deleteVolume() },
	},
	"volume is deleted meanwhile, then detached": {
		before: func(c *attachScene) { c.attached() }, stopped: func(c *attachScene) { c.deleteVolume() },
		after: func(c *attachScene) { c.detach("a") },
	},
	"volume is deleted, and detached meanwhile": {
		before: func(c *attachScene) { c.attached() }, stopped: func(c *attachScene) { c.deleteVolume(); c.detach("a") },
	},
	"volume is lost, and detached meanwhile": {
		before: func(c *attachScene) { c.attached() }, stopped: func(c *attachScene) { c.loseVolume(); c.detach("a") },
	},
	"attach fails, restart": {
		before: func(c *attachScene) { c.fails(codes.Unavailable) }, stopped: func(c *attachScene) { c.publishes(codes.OK, 0) },
	},
	"attached in spite of errors, detached meanwhile": {
		before:  func(c *attachScene) { c.publishesInSpiteOf(codes.DeadlineExceeded, 0); c.attached() },
		stopped: func(c *attachScene) { c.detach("a") },
	},
	"detach fails, restart": {
		before:  func(c *attachScene) { c.attached(); c.unpublishes(codes.Internal, 0); c.detached() },
		stopped: func(c *attachScene) { c.unpublishes(codes.OK, 0) },
	},
	"node ID changes meanwhile, then detached": {
		before: func(c *attachScene) { c.attached() }, stopped: func(c *attachScene) { c.registerNode("a", "id-new") },
		after: func(c *attachScene) { c.detach("a") },
	},
	"attach fails, node ID changes meanwhile": {
		before:  func(c *attachScene) { c.publishesInSpiteOf(codes.DeadlineExceeded, 0); c.attached() },
		stopped: func(c *attachScene) { c.publishes(codes.OK, 0); c.registerNode("a", "id-new") },
	},
	"node goes meanwhile, then detached": {
		before: func(c *attachScene) { c.attached() }, stopped: func(c *attachScene) { c.deleteNode("a") },
		after: func(c *attachScene) { c.detach("a") },
	},
	"finalizer is removed meanwhile": {
		before: func(c *attachScene) { c.attached() }, stopped: func(c *attachScene) { c.removeFinalizers("a") },
	},
	"attachment is lost, attached again meanwhile": {
		before: func(c *attachScene) { c.attached() }, stopped: func(c *attachScene) { c.loseAttachment("a"); c.attach("a") },
	},
	"attachment and volume are deleted meanwhile": {
		before: func(c *attachScene) { c.attached() }, stopped: func(c *attachScene) { c.loseAttachment("a"); c.deleteVolume() },
	},
	"marked as attached meanwhile": {
		before: func(c *attachScene) { c.disk() }, stopped: func(c *attachScene) { c.attach("a"); c.markAttached("a") },
	},
	"marked as detached meanwhile": {
		before: func(c *attachScene) { c.attached() }, stopped: func(c *attachScene) { c.markDetached("a") },
	},
	"secret comes meanwhile": {
		before: func(c *attachScene) { c.attached(withPublishSecret) }, stopped: func(c *attachScene) { c.createSecret() },
	},
}

// driftSituations are situations in which the storage differs from the VolumeAttachments.
var driftSituations = map[string]func(*attachScene){
	"storage has lost the volume": func(c *attachScene) { c.attached(); c.loseAtStorage(); c.awaitList() },
	"storage has lost the volume, attach fails": func(c *attachScene) {
		c.attached()
		c.publishes(codes.Internal, 0)
		c.loseAtStorage()
		c.awaitList()
	},
	"storage has lost the volume, attach fails at first": func(c *attachScene) {
		c.attached()
		c.publishes(codes.Internal, 2)
		c.loseAtStorage()
		c.awaitList()
	},
	"storage has lost the volume, volume is deleted": func(c *attachScene) {
		c.attached()
		c.deleteVolume()
		c.loseAtStorage()
		c.awaitList()
	},
	"storage has lost the volume, then detached": func(c *attachScene) {
		c.attached()
		c.loseAtStorage()
		c.awaitList()
		c.settle()
		c.detach("a")
	},
	"storage has lost the volume, publish context changes": func(c *attachScene) {
		c.publishesWith(map[string]string{"device": "/dev/sdx", "lun": "3"})
		c.attached()
		c.publishesWith(map[string]string{"device": "/dev/sdy"})
		c.loseAtStorage()
		c.awaitList()
	},
	"storage has lost the volume of one node": func(c *attachScene) {
		c.attached()
		c.loseAtStorage()
		c.attach("b")
		c.awaitList()
	},
	"storage has the volume without an attachment": func(c *attachScene) { c.disk(); c.attachAtStorage(); c.awaitList() },
	"attached in spite of errors": func(c *attachScene) {
		c.publishesInSpiteOf(codes.DeadlineExceeded, 0)
		c.attached()
		c.awaitList()
	},
}

// driftInterruptions are situations of drift in which the program restarts.
var driftInterruptions = map[string]interruption[*attachScene]{
	"storage has lost the volume meanwhile": {
		before: func(c *attachScene) { c.attached() }, stopped: func(c *attachScene) { c.loseAtStorage() },
		after: func(c *attachScene) { c.awaitList() },
	},
	"marked as attached meanwhile": {
		before: func(c *attachScene) { c.disk() }, stopped: func(c *attachScene) { c.attach("a"); c.markAttached("a") },
		after: func(c *attachScene) { c.awaitList() },
	},
}

// Reasons of differences.
const (
	recordedNode   = "a detach concerns the node ID of the attach, not the present one"
	movedFirst     = "the earlier target, which may be attached, is detached before the volume is attached to another one"
	restored       = "finalizers that a user has removed from an attached volume are restored, so that it is detached in the end"
	guardedLast    = "the volume has the finalizer directly before the first call of the driver, not before the volume and the node are checked"
	recordedVolume = "a volume that exists no more is detached by its recorded handle"
	ofDriverAlone  = "a volume of another driver is not attached"
	withoutSecret  = "a volume whose Secret was deleted is detached by a call without secrets"
)

// attachDifferences are the situations whose end states differ, with the reasons.
var attachDifferences = map[string]string{
	"node ID changes, then detached":           recordedNode,
	"node ID changes meanwhile, then detached": recordedNode,

	"attach fails, node ID changes":           movedFirst,
	"attach fails, node ID changes meanwhile": movedFirst,
	"attach fails, volume is replaced":        movedFirst,

	"finalizer is removed":                restored,
	"finalizer is removed meanwhile":      restored,
	"finalizer is removed, then detached": restored,
	"finalizer of the volume is removed":  restored,
	"marked as attached meanwhile":        restored,

	"node is missing":                guardedLast,
	"node is missing, then detached": guardedLast,
	"node without the driver":        guardedLast,

	"volume is lost, then detached":          recordedVolume,
	"volume is lost, and detached meanwhile": recordedVolume,
	"volume is replaced, then detached":      recordedVolume,

	"volume of another driver":                ofDriverAlone,
	"volume of another driver, then detached": ofDriverAlone,

	"one writer, or many readers":                guardedLast,
	"one writer, or many readers, then detached": guardedLast,
	"secret is missing":                          guardedLast,
	"secret is missing, then detached":           guardedLast,
	"volume on the host":                         guardedLast,
	"volume on the host, then detached":          guardedLast,

	"secret goes, then detached":           withoutSecret,
	"secret goes and comes, then detached": withoutSecret,

	"two attachments, one is detached":                  "the volume stays attached for the other VolumeAttachment of the node",
	"attach fails, node goes":                           "attaching goes on with the recorded node ID: the driver registers again after an update",
	"attach fails, marked as attached":                  "an attached volume has no error of attaching",
	"attachment of another attacher, volume is deleted": "a VolumeAttachment of another attacher does not keep the finalizer of this one",
}

// driftDifferences are those of driftSituations.
var driftDifferences = map[string]string{
	"storage has lost the volume, attach fails at first": "a failed call for a lost volume is repeated after a pause, not only after the next list",
	"storage has lost the volume, volume is deleted":     "a lost volume is attached again also while its PersistentVolume is being deleted: pods may use it",
}
