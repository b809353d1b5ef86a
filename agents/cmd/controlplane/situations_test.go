//go:build linux

package main

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type (
	claimChange  = func(*v1.PersistentVolumeClaim)
	volumeChange = func(*v1.PersistentVolume)
)

const (
	boundByController = "pv.kubernetes.io/bound-by-controller"
	bindCompleted     = "pv.kubernetes.io/bind-completed"
	provisionedBy     = "pv.kubernetes.io/provisioned-by"
	selectedNode      = "volume.kubernetes.io/selected-node"
	isDefault         = "storageclass.kubernetes.io/is-default-class"
)

// Changes of claims.
func requests(size string) claimChange {
	return func(c *v1.PersistentVolumeClaim) { c.Spec.Resources.Requests = sized(size) }
}

func names(volume string) claimChange {
	return func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = volume }
}

func ofClass(class string) claimChange {
	return func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = &class }
}

func ofNoClass(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }

func withModes(modes ...v1.PersistentVolumeAccessMode) claimChange {
	return func(c *v1.PersistentVolumeClaim) { c.Spec.AccessModes = modes }
}

func asBlock(c *v1.PersistentVolumeClaim) {
	mode := v1.PersistentVolumeBlock
	c.Spec.VolumeMode = &mode
}

func selects(labels ...string) claimChange {
	return func(c *v1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{labels[0]: labels[1]}}
	}
}

func annotated(name, value string) claimChange {
	return func(c *v1.PersistentVolumeClaim) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, name, value) }
}

// Changes of volumes.
func has(size string) volumeChange {
	return func(pv *v1.PersistentVolume) { pv.Spec.Capacity = sized(size) }
}

func inClass(class string) volumeChange {
	return func(pv *v1.PersistentVolume) { pv.Spec.StorageClassName = class }
}

func permits(modes ...v1.PersistentVolumeAccessMode) volumeChange {
	return func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = modes }
}

func isBlock(pv *v1.PersistentVolume) {
	mode := v1.PersistentVolumeBlock
	pv.Spec.VolumeMode = &mode
}

func labelled(name, value string) volumeChange {
	return func(pv *v1.PersistentVolume) { pv.Labels = map[string]string{name: value} }
}

func noted(name, value string) volumeChange {
	return func(pv *v1.PersistentVolume) { metav1.SetMetaDataAnnotation(&pv.ObjectMeta, name, value) }
}

func reclaimed(policy v1.PersistentVolumeReclaimPolicy) volumeChange {
	return func(pv *v1.PersistentVolume) { pv.Spec.PersistentVolumeReclaimPolicy = policy }
}

// refersTo reserves a volume for a claim; uid may be empty.
func (c *scene) refersTo(claim string, uid types.UID) volumeChange {
	return func(pv *v1.PersistentVolume) {
		pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.namespace, Name: claim, UID: uid}
	}
}

func refersToNone(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil }

func onHost(pv *v1.PersistentVolume) {
	pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/nowhere"}}
}

func waits(class *storagev1.StorageClass) {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	class.VolumeBindingMode = &mode
}

// onExport makes a volume an NFS export whose path is its name.
func onExport(pv *v1.PersistentVolume) {
	pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "nas", Path: "/" + pv.Name}}
}

func unscheduled(pod *v1.Pod) { pod.Spec.NodeName = "" }

// situations are the steps of users, by name. Between the steps the controllers work until nothing changes.
var situations = map[string]func(*scene){
	// Matching.
	"exact size":     func(c *scene) { c.volume("pv"); c.claim("claim") },
	"claim first":    func(c *scene) { c.claim("claim"); c.settle(); c.volume("pv") },
	"larger volume":  func(c *scene) { c.volume("pv", has("9Gi")); c.claim("claim") },
	"smaller volume": func(c *scene) { c.volume("pv", has("4Gi")); c.claim("claim") },
	"smallest of three": func(c *scene) {
		c.volume("a", has("9Gi"))
		c.volume("b", has("6Gi"))
		c.volume("c", has("7Gi"))
		c.settle()
		c.claim("claim")
	},
	"no volume":       func(c *scene) { c.claim("claim") },
	"unused volume":   func(c *scene) { c.volume("pv") },
	"more modes":      func(c *scene) { c.volume("pv", permits(v1.ReadWriteOnce, v1.ReadWriteMany)); c.claim("claim") },
	"other mode":      func(c *scene) { c.volume("pv", permits(v1.ReadOnlyMany)); c.claim("claim") },
	"one mode of two": func(c *scene) { c.volume("pv"); c.claim("claim", withModes(v1.ReadWriteOnce, v1.ReadWriteMany)) },
	"fewer modes first": func(c *scene) {
		c.volume("a", permits(v1.ReadWriteOnce, v1.ReadWriteMany))
		c.volume("b")
		c.settle()
		c.claim("claim")
	},
	"pod mode": func(c *scene) {
		c.volume("pv", permits(v1.ReadWriteOncePod))
		c.claim("claim", withModes(v1.ReadWriteOncePod))
	},
	"same class":            func(c *scene) { c.volume("pv", inClass(c.prefix+"c")); c.claim("claim", ofClass(c.prefix+"c")) },
	"other class":           func(c *scene) { c.volume("pv", inClass(c.prefix+"d")); c.claim("claim", ofClass(c.prefix+"c")) },
	"class of volume alone": func(c *scene) { c.volume("pv", inClass(c.prefix+"c")); c.claim("claim") },
	"class by annotation": func(c *scene) {
		c.volume("pv", inClass(c.prefix+"c"))
		c.claim("claim", ofNoClass, annotated("volume.beta.kubernetes.io/storage-class", c.prefix+"c"))
	},
	"block and files": func(c *scene) { c.volume("pv"); c.claim("claim", asBlock) },
	"files and block": func(c *scene) { c.volume("pv", isBlock); c.claim("claim") },
	"both block":      func(c *scene) { c.volume("pv", isBlock); c.claim("claim", asBlock) },
	"label selected":  func(c *scene) { c.volume("pv", labelled("disk", "fast")); c.claim("claim", selects("disk", "fast")) },
	"other label":     func(c *scene) { c.volume("pv", labelled("disk", "slow")); c.claim("claim", selects("disk", "fast")) },
	"label comes": func(c *scene) {
		c.volume("pv")
		c.claim("claim", selects("disk", "fast"))
		c.settle()
		c.editVolume("pv", labelled("disk", "fast"))
	},
	"volume grows": func(c *scene) {
		c.volume("pv", has("4Gi"))
		c.claim("claim")
		c.settle()
		c.editVolume("pv", has("5Gi"))
	},
	"node affinity": func(c *scene) {
		c.volume("pv", func(pv *v1.PersistentVolume) {
			here := v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{"node"}}
			pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{here}}}}}
		})
		c.claim("claim")
	},
	"attributes class": func(c *scene) {
		name := "gold"
		c.volume("pv", inClass(c.prefix+"c"), func(pv *v1.PersistentVolume) { pv.Spec.VolumeAttributesClassName = &name })
		c.claim("claim", ofClass(c.prefix+"c"), func(claim *v1.PersistentVolumeClaim) { claim.Spec.VolumeAttributesClassName = &name })
	},
	"other attributes class": func(c *scene) {
		name := "gold"
		c.volume("pv")
		c.claim("claim", func(claim *v1.PersistentVolumeClaim) { claim.Spec.VolumeAttributesClassName = &name })
	},
	// Reserved on either side.
	"volume reserved":             func(c *scene) { c.volume("pv", c.refersTo("claim", "")); c.settle(); c.claim("claim") },
	"volume reserved for another": func(c *scene) { c.volume("pv", c.refersTo("other", "")); c.claim("claim") },
	"volume reserved for a UID": func(c *scene) {
		c.claim("claim", requests("9Gi"))
		c.volume("pv", has("9Gi"), c.refersTo("claim", c.uidOf("claim")))
	},
	"volume reserved for a gone UID": func(c *scene) { c.volume("pv", c.refersTo("claim", "gone")); c.claim("claim") },
	"reserved, too small":            func(c *scene) { c.volume("pv", has("1Gi"), c.refersTo("claim", "")); c.claim("claim") },
	"reserved, other class":          func(c *scene) { c.volume("pv", inClass(c.prefix+"c"), c.refersTo("claim", "")); c.claim("claim") },
	"reserved, other volume mode":    func(c *scene) { c.volume("pv", isBlock, c.refersTo("claim", "")); c.claim("claim") },
	"reserved one before smaller one": func(c *scene) {
		c.volume("a", has("5Gi"))
		c.volume("b", has("9Gi"), c.refersTo("claim", ""))
		c.settle()
		c.claim("claim")
	},
	"claim names volume":               func(c *scene) { c.volume("pv"); c.settle(); c.claim("claim", names(c.prefix+"pv")) },
	"claim names no volume":            func(c *scene) { c.claim("claim", names(c.prefix+"pv")) },
	"named volume comes":               func(c *scene) { c.claim("claim", names(c.prefix+"pv")); c.settle(); c.volume("pv") },
	"claim names too small volume":     func(c *scene) { c.volume("pv", has("1Gi")); c.claim("claim", names(c.prefix+"pv")) },
	"claim names volume of class":      func(c *scene) { c.volume("pv", inClass(c.prefix+"c")); c.claim("claim", names(c.prefix+"pv")) },
	"claim names block":                func(c *scene) { c.volume("pv", isBlock); c.claim("claim", names(c.prefix+"pv")) },
	"claim names volume of other mode": func(c *scene) { c.volume("pv", permits(v1.ReadOnlyMany)); c.claim("claim", names(c.prefix+"pv")) },
	"claim names used volume":          func(c *scene) { c.bound(); c.claim("late", names(c.prefix+"pv")) },
	"claim names reserved volume":      func(c *scene) { c.volume("pv", c.refersTo("other", "")); c.claim("claim", names(c.prefix+"pv")) },
	"both name each other":             func(c *scene) { c.volume("pv", c.refersTo("claim", "")); c.claim("claim", names(c.prefix+"pv")) },
	"both name each other, too small": func(c *scene) {
		c.volume("pv", has("1Gi"), c.refersTo("claim", ""))
		c.claim("claim", names(c.prefix+"pv"))
	},
	// Classes.
	"class is missing":        func(c *scene) { c.claim("claim", ofClass(c.prefix+"c")) },
	"class without provision": func(c *scene) { c.class("c", "kubernetes.io/no-provisioner"); c.claim("claim", ofClass(c.prefix+"c")) },
	"external provisioner":    func(c *scene) { c.class("c", "driver.example.com"); c.claim("claim", ofClass(c.prefix+"c")) },
	"class comes": func(c *scene) {
		c.claim("claim", ofClass(c.prefix+"c"))
		c.settle()
		c.class("c", "driver.example.com")
	},
	"unknown plugin": func(c *scene) { c.class("c", "kubernetes.io/unknown"); c.claim("claim", ofClass(c.prefix+"c")) },
	"volume instead of provisioner": func(c *scene) {
		c.class("c", "driver.example.com")
		c.volume("pv", inClass(c.prefix+"c"))
		c.settle()
		c.claim("claim", ofClass(c.prefix+"c"))
	},
	"waits for a pod": func(c *scene) { c.class("c", "driver.example.com", waits); c.claim("claim", ofClass(c.prefix+"c")) },
	"waits, and a pod comes": func(c *scene) {
		c.class("c", "driver.example.com", waits)
		c.claim("claim", ofClass(c.prefix+"c"))
		c.settle()
		c.pod("web", "claim", unscheduled)
	},
	"waits, and a pod goes": func(c *scene) {
		c.class("c", "driver.example.com", waits)
		c.claim("claim", ofClass(c.prefix+"c"))
		c.pod("web", "claim", unscheduled)
		c.settle()
		c.deletePod("web")
	},
	"waits, with a volume": func(c *scene) {
		c.class("c", "driver.example.com", waits)
		c.volume("pv", inClass(c.prefix+"c"))
		c.claim("claim", ofClass(c.prefix+"c"))
	},
	"node selected": func(c *scene) {
		c.class("c", "driver.example.com", waits)
		c.claim("claim", ofClass(c.prefix+"c"), annotated(selectedNode, "node"))
	},
	"node selected, no provision": func(c *scene) {
		c.class("c", "kubernetes.io/no-provisioner", waits)
		c.claim("claim", ofClass(c.prefix+"c"), annotated(selectedNode, "node"))
	},
	"scheduler reserves": func(c *scene) {
		c.class("c", "kubernetes.io/no-provisioner", waits)
		c.volume("pv", inClass(c.prefix+"c"))
		c.claim("claim", ofClass(c.prefix+"c"))
		c.settle()
		c.editVolume("pv", c.refersTo("claim", c.uidOf("claim")))
		c.editVolume("pv", noted(boundByController, "yes"))
	},
	"provisioner brings a volume": func(c *scene) {
		c.class("c", "driver.example.com")
		c.claim("claim", ofClass(c.prefix+"c"))
		c.settle()
		c.volume("pv", inClass(c.prefix+"c"), c.refersTo("claim", c.uidOf("claim")), noted(provisionedBy, "driver.example.com"), reclaimed(v1.PersistentVolumeReclaimDelete))
	},
	// Ends.
	"claim is deleted":  func(c *scene) { c.bound(); c.deleteClaim("claim") },
	"claim comes again": func(c *scene) { c.bound(); c.deleteClaim("claim"); c.settle(); c.claim("claim") },
	"delete, static":    func(c *scene) { c.bound(reclaimed(v1.PersistentVolumeReclaimDelete)); c.deleteClaim("claim") },
	"delete, by a driver": func(c *scene) {
		c.bound(reclaimed(v1.PersistentVolumeReclaimDelete), noted(provisionedBy, "driver.example.com"))
		c.deleteClaim("claim")
	},
	"delete, by a gone plugin": func(c *scene) {
		c.bound(reclaimed(v1.PersistentVolumeReclaimDelete), noted(provisionedBy, "kubernetes.io/gone"))
		c.deleteClaim("claim")
	},
	"delete, static export": func(c *scene) { c.bound(onExport, reclaimed(v1.PersistentVolumeReclaimDelete)); c.deleteClaim("claim") },
	"delete, host path":     func(c *scene) { c.bound(onHost, reclaimed(v1.PersistentVolumeReclaimDelete)); c.deleteClaim("claim") },
	"recycle an export": func(c *scene) {
		c.bound(onExport, reclaimed(v1.PersistentVolumeReclaimRecycle))
		c.deleteClaim("claim")
		c.endRecycling("pv")
	},
	"recycle an export for a waiting claim": func(c *scene) {
		c.bound(onExport, reclaimed(v1.PersistentVolumeReclaimRecycle))
		c.claim("late")
		c.deleteClaim("claim")
		c.endRecycling("pv")
	},
	"recycle, by a driver": func(c *scene) { c.bound(reclaimed(v1.PersistentVolumeReclaimRecycle)); c.deleteClaim("claim") },
	"retain after all": func(c *scene) {
		c.bound(reclaimed(v1.PersistentVolumeReclaimDelete), noted(provisionedBy, "driver.example.com"))
		c.editVolume("pv", reclaimed(v1.PersistentVolumeReclaimRetain))
		c.deleteClaim("claim")
	},
	"unbound claim is deleted": func(c *scene) { c.claim("claim"); c.settle(); c.deleteClaim("claim") },
	"unused volume is deleted": func(c *scene) { c.volume("pv"); c.settle(); c.deleteVolume("pv") },
	"bound volume is deleted":  func(c *scene) { c.bound(); c.deleteVolume("pv") },
	"both are deleted":         func(c *scene) { c.bound(); c.deleteVolume("pv"); c.settle(); c.deleteClaim("claim") },
	"released volume is freed": func(c *scene) { c.bound(); c.deleteClaim("claim"); c.settle(); c.editVolume("pv", refersToNone) },
	"freed for a waiting claim": func(c *scene) {
		c.bound()
		c.claim("late")
		c.deleteClaim("claim")
		c.settle()
		c.editVolume("pv", refersToNone)
	},
	"released, then reserved": func(c *scene) {
		c.bound()
		c.deleteClaim("claim")
		c.settle()
		c.editVolume("pv", c.refersTo("claim", ""))
		c.settle()
		c.claim("claim")
	},
	"volume is lost": func(c *scene) { c.bound(); c.loseVolume("pv") },
	"lost volume comes again": func(c *scene) {
		c.bound()
		uid := c.uidOf("claim")
		c.loseVolume("pv")
		c.settle()
		c.volume("pv", c.refersTo("claim", uid))
	},
	"lost volume is replaced": func(c *scene) { c.bound(); c.loseVolume("pv"); c.settle(); c.volume("pv") },
	"lost claim is deleted":   func(c *scene) { c.bound(); c.loseVolume("pv"); c.settle(); c.deleteClaim("claim") },
	"reference is removed":    func(c *scene) { c.bound(); c.editVolume("pv", refersToNone) },
	"reference is changed":    func(c *scene) { c.bound(); c.editVolume("pv", c.refersTo("other", "")) },
	"UID is removed":          func(c *scene) { c.bound(); c.editVolume("pv", c.refersTo("claim", "")) },
	"annotation is removed": func(c *scene) {
		c.bound()
		c.editClaim("claim", func(claim *v1.PersistentVolumeClaim) { delete(claim.Annotations, bindCompleted) })
	},
	"completed without a volume": func(c *scene) { c.claim("claim", annotated(bindCompleted, "yes")) },
	"completed, volume is gone":  func(c *scene) { c.claim("claim", names(c.prefix+"pv"), annotated(bindCompleted, "yes")) },
	"completed, volume is free": func(c *scene) {
		c.volume("pv")
		c.claim("claim", names(c.prefix+"pv"), annotated(bindCompleted, "yes"))
	},
	"completed, volume is taken": func(c *scene) { c.bound(); c.claim("late", names(c.prefix+"pv"), annotated(bindCompleted, "yes")) },
	// Protection and ephemeral volumes.
	"pod uses a claim": func(c *scene) { c.bound(); c.pod("web", "claim"); c.deleteClaim("claim") },
	"pod has used a claim": func(c *scene) {
		c.bound()
		c.pod("web", "claim")
		c.deleteClaim("claim")
		c.settle()
		c.deletePod("web")
	},
	"ephemeral volume":         func(c *scene) { c.volume("pv"); c.settle(); c.pod("web", "") },
	"ephemeral, name is taken": func(c *scene) { c.claim("web-data"); c.settle(); c.pod("web", "") },
	"ephemeral, claim is freed": func(c *scene) {
		c.claim("web-data")
		c.settle()
		c.pod("web", "")
		c.settle()
		c.deleteClaim("web-data")
	},
	"host path": func(c *scene) { c.bound(onHost) },
}

// alone are situations that concern all claims and volumes without a class: they take place one after the
// other.
var alone = map[string]func(*scene){
	"no class":            func(c *scene) { c.volume("pv", inClass("")); c.claim("claim", ofClass("")) },
	"no class, no volume": func(c *scene) { c.claim("claim", ofClass("")) },
	"claim without class": func(c *scene) { c.volume("pv", inClass("")); c.claim("claim", ofNoClass) },
	"default class comes": func(c *scene) {
		c.claim("claim", ofNoClass)
		c.settle()
		c.defaultClass("c", "driver.example.com")
	},
	"no default class": func(c *scene) { c.class("c", "driver.example.com"); c.claim("claim", ofNoClass) },
	"newest default class": func(c *scene) {
		c.claim("claim", ofNoClass)
		c.settle()
		c.class("a", "a.example.com", marked)
		c.defaultClass("b", "b.example.com")
		c.editClass("a")
	},
	"default class is for claims without one": func(c *scene) {
		c.claim("claim")
		c.settle()
		c.defaultClass("c", "driver.example.com")
	},
}

func marked(class *storagev1.StorageClass) {
	metav1.SetMetaDataAnnotation(&class.ObjectMeta, isDefault, "true")
}

// defaultClass creates a default class, and marks it as none after the controllers have worked.
func (c *scene) defaultClass(name, provisioner string) {
	c.class(name, provisioner, marked)
	c.settle()
	c.editClass(name)
}

// editClass marks a class as no default.
func (c *scene) editClass(name string) {
	class, err := c.cluster.StorageClasses().Get(c.ctx, c.prefix+name, metav1.GetOptions{})
	c.must(nil, err)
	delete(class.Annotations, isDefault)
	c.must(c.clientset.StorageV1().StorageClasses().Update(c.ctx, class, metav1.UpdateOptions{}))
}

// differences are the situations whose end states differ, with the reasons.
var differences = map[string]string{
	"delete, by a gone plugin": "a finalizer for a plugin that this program does not have would keep the volume for ever",
}
