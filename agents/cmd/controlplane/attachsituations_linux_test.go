package main

import (
	"github.com/volumekit/volumekit/controllers/attach"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// of is the list of the claims of a pod.
func of(claims ...string) []string { return claims }

// Changes of pods.
func inPhase(phase v1.PodPhase) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Status.Phase = phase }
}

// withContainers sets the states of the containers of a pod.
func withContainers(states ...v1.ContainerState) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Status.ContainerStatuses = nil
		for _, state := range states {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{Name: "web", Image: "web", State: state})
		}
	}
}

var (
	runs = v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	ends = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}
)

// ephemeral makes the first volume of a pod an ephemeral one of a name.
func ephemeral(name string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.Volumes = []v1.Volume{{Name: name, VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
			VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, Resources: v1.VolumeResourceRequirements{Requests: sized("5Gi")},
			}},
		}}}}
	}
}

// Changes of nodes.
func unmanaged(node *v1.Node) { delete(node.Annotations, attach.ManagedAnnotation) }

func managed(node *v1.Node) {
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, attach.ManagedAnnotation, "true")
}

func notReady(node *v1.Node) { node.Status.Conditions[0].Status = v1.ConditionFalse }

func outOfService(node *v1.Node) {
	node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: v1.TaintNodeOutOfService, Effect: v1.TaintEffectNoExecute})
}

// Changes of VolumeAttachments.
func namedOther(va *storagev1.VolumeAttachment) { va.Name = va.Spec.NodeName + "-other" }

func ofOtherDriver(va *storagev1.VolumeAttachment) {
	namedOther(va)
	va.Spec.Attacher = va.Spec.NodeName + "-other-driver"
}

// attached runs a pod with a volume on the node a.
func (c *scene) attached(changes ...volumeChange) {
	c.disk("pv", changes...)
	c.run("web", "a", of("pv"))
	c.settle()
}

// attachSituations are steps of users and nodes, by name.
var attachSituations = map[string]func(*scene){
	// Pods.
	"pod uses a volume":       func(c *scene) { c.attached() },
	"two pods on one node":    func(c *scene) { c.attached(); c.run("late", "a", of("pv")) },
	"two volumes":             func(c *scene) { c.disk("pv"); c.disk("two"); c.run("web", "a", of("pv", "two")) },
	"one volume twice":        func(c *scene) { c.disk("pv"); c.run("web", "a", of("pv", "pv")) },
	"volume without a pod":    func(c *scene) { c.disk("pv") },
	"pod without a node":      func(c *scene) { c.disk("pv"); c.run("web", "", of("pv")) },
	"pod without the claim":   func(c *scene) { c.run("web", "a", of("pv")) },
	"block volume":            func(c *scene) { c.attached(isBlock) },
	"pod finishes":            func(c *scene) { c.attached(); c.editPod("web", inPhase(v1.PodSucceeded)) },
	"pod fails":               func(c *scene) { c.attached(); c.editPod("web", inPhase(v1.PodFailed)) },
	"pod is deleted":          func(c *scene) { c.attached(); c.deletePod("web") },
	"one pod of two goes":     func(c *scene) { c.attached(); c.run("late", "a", of("pv")); c.settle(); c.deletePod("web") },
	"pod comes again":         func(c *scene) { c.attached(); c.deletePod("web"); c.settle(); c.run("web", "a", of("pv")) },
	"pod comes again at once": func(c *scene) { c.attached(); c.deletePod("web"); c.run("web", "a", of("pv")) },
	"terminating pod runs": func(c *scene) {
		c.attached()
		c.editPod("web", withContainers(runs))
		c.terminatePod("web")
	},
	"terminating pod has ended": func(c *scene) {
		c.attached()
		c.editPod("web", withContainers(runs))
		c.terminatePod("web")
		c.settle()
		c.editPod("web", withContainers(ends))
	},
	// In use.
	"pod goes, volume in use": func(c *scene) { c.attached(); c.uses("a", "pv"); c.settle(); c.deletePod("web") },
	"volume in use until later": func(c *scene) {
		c.attached()
		c.uses("a", "pv")
		c.settle()
		c.deletePod("web")
		c.settle()
		c.uses("a")
	},
	"pod comes back to volume in use": func(c *scene) {
		c.attached()
		c.uses("a", "pv")
		c.settle()
		c.deletePod("web")
		c.settle()
		c.run("web", "a", of("pv"))
	},
	"one volume of two in use": func(c *scene) {
		c.disk("pv")
		c.disk("two")
		c.run("web", "a", of("pv", "two"))
		c.settle()
		c.uses("a", "two")
		c.settle()
		c.deletePod("web")
	},
	// Claims and volumes.
	"claim is pending": func(c *scene) { c.claim("pv"); c.run("web", "a", of("pv")) },
	"claim is bound later": func(c *scene) {
		c.claim("pv", names(c.prefix+"pv"))
		c.volume("pv", c.refersTo("pv", c.uidOf("pv")), c.ofDriver)
		c.run("web", "a", of("pv"))
		c.settle()
		c.bind("pv")
	},
	"claim comes later":       func(c *scene) { c.run("web", "a", of("pv")); c.settle(); c.disk("pv") },
	"volume of another claim": func(c *scene) { c.disk("pv", c.refersTo("pv", "gone")); c.run("web", "a", of("pv")) },
	"volume is missing":       func(c *scene) { c.claim("pv", names(c.prefix+"pv")); c.bind("pv"); c.run("web", "a", of("pv")) },
	"volume on the host":      func(c *scene) { c.disk("pv", onHost); c.run("web", "a", of("pv")) },
	"ephemeral volume": func(c *scene) {
		c.run("web", "a", nil, ephemeral("data"))
		c.claim("web-data", names(c.prefix+"web-data"))
		c.own("web-data", "web")
		c.volume("web-data", c.refersTo("web-data", c.uidOf("web-data")), c.ofDriver)
		c.bind("web-data")
	},
	"ephemeral, claim of another": func(c *scene) { c.disk("web-data"); c.run("web", "a", nil, ephemeral("data")) },
	"claim is deleted":            func(c *scene) { c.attached(); c.deleteClaim("pv") },
	"claim and pod are deleted":   func(c *scene) { c.attached(); c.deleteClaim("pv"); c.settle(); c.deletePod("web"); c.wait() },
	"volume is lost, pod goes":    func(c *scene) { c.attached(); c.loseVolume("pv"); c.settle(); c.deletePod("web"); c.wait() },
	"one handle, two volumes": func(c *scene) {
		sameHandle := func(pv *v1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = c.prefix + "handle" }
		c.disk("pv", sameHandle)
		c.disk("two", sameHandle)
		c.run("web", "a", of("pv", "two"))
	},
	// Two nodes.
	"pod moves":         func(c *scene) { c.attached(); c.deletePod("web"); c.settle(); c.run("web", "b", of("pv")) },
	"pod moves at once": func(c *scene) { c.attached(); c.deletePod("web"); c.run("web", "b", of("pv")) },
	"pod moves, volume in use": func(c *scene) {
		c.attached()
		c.uses("a", "pv")
		c.settle()
		c.deletePod("web")
		c.run("late", "b", of("pv"))
	},
	"pod moves once unused": func(c *scene) {
		c.attached()
		c.uses("a", "pv")
		c.settle()
		c.deletePod("web")
		c.run("late", "b", of("pv"))
		c.settle()
		c.uses("a")
	},
	"one writer, two nodes":   func(c *scene) { c.attached(); c.run("late", "b", of("pv")) },
	"second writer waits":     func(c *scene) { c.attached(); c.run("late", "b", of("pv")); c.settle(); c.deletePod("web") },
	"second writer gives up":  func(c *scene) { c.attached(); c.run("late", "b", of("pv")); c.settle(); c.deletePod("late") },
	"many writers, two nodes": func(c *scene) { c.attached(permits(v1.ReadWriteMany)); c.run("late", "b", of("pv")) },
	"readers, two nodes":      func(c *scene) { c.attached(permits(v1.ReadOnlyMany)); c.run("late", "b", of("pv")) },
	"one pod, two nodes":      func(c *scene) { c.attached(permits(v1.ReadWriteOncePod)); c.run("late", "b", of("pv")) },
	"writer and readers":      func(c *scene) { c.attached(permits(v1.ReadWriteOnce, v1.ReadOnlyMany)); c.run("late", "b", of("pv")) },
	"one node of two goes": func(c *scene) {
		c.attached(permits(v1.ReadWriteMany))
		c.run("late", "b", of("pv"))
		c.settle()
		c.deletePod("web")
	},
	// Nodes.
	"node is not managed": func(c *scene) { c.node("c", unmanaged); c.disk("pv"); c.run("web", "c", of("pv")) },
	"node is managed by false": func(c *scene) {
		c.node("c", func(node *v1.Node) { node.Annotations[attach.ManagedAnnotation] = "false" })
		c.disk("pv")
		c.run("web", "c", of("pv"))
	},
	"node becomes managed": func(c *scene) {
		c.node("c", unmanaged)
		c.disk("pv")
		c.run("web", "c", of("pv"))
		c.settle()
		c.editNode("c", managed)
		c.settle()
		c.touchPod("web")
	},
	"node ceases to be managed":            func(c *scene) { c.attached(); c.editNode("a", unmanaged) },
	"node ceases to be managed, pod comes": func(c *scene) { c.editNode("a", unmanaged); c.attached() },
	"node is missing":                      func(c *scene) { c.disk("pv"); c.run("web", "c", of("pv")) },
	"node comes later": func(c *scene) {
		c.disk("pv")
		c.run("web", "c", of("pv"))
		c.settle()
		c.node("c")
		c.settle()
		c.touchPod("web")
	},
	"finished pod keeps its volume": func(c *scene) {
		c.editNode("a", func(node *v1.Node) {
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, attach.KeepTerminatedAnnotation, "true")
		})
		c.attached()
		c.editPod("web", inPhase(v1.PodSucceeded))
	},
	"node is not ready":        func(c *scene) { c.editNode("a", notReady); c.attached() },
	"node not ready, pod goes": func(c *scene) { c.attached(); c.editNode("a", notReady); c.settle(); c.deletePod("web") },
	"not ready, in use, pod goes": func(c *scene) {
		c.attached()
		c.uses("a", "pv")
		c.editNode("a", notReady)
		c.settle()
		c.deletePod("web")
	},
	"out of service, in use, pod goes": func(c *scene) {
		c.attached()
		c.uses("a", "pv")
		c.editNode("a", notReady)
		c.editNode("a", outOfService)
		c.settle()
		c.deletePod("web")
	},
	"out of service, pod moves": func(c *scene) {
		c.attached()
		c.uses("a", "pv")
		c.settle()
		c.deletePod("web")
		c.run("late", "b", of("pv"))
		c.settle()
		c.editNode("a", notReady)
		c.editNode("a", outOfService)
	},
	"out of service, pod stays": func(c *scene) { c.attached(); c.uses("a", "pv"); c.editNode("a", outOfService) },
	"node is deleted":           func(c *scene) { c.attached(); c.deleteNode("a") },
	"node is deleted, in use": func(c *scene) {
		c.attached()
		c.uses("a", "pv")
		c.settle()
		c.deleteNode("a")
		c.settle()
		c.deletePod("web")
	},
	"node is deleted, pod goes": func(c *scene) { c.attached(); c.deleteNode("a"); c.settle(); c.deletePod("web") },
	"node comes again": func(c *scene) {
		c.attached()
		c.deleteNode("a")
		c.settle()
		c.node("a")
		c.settle()
		c.touchPod("web")
	},
	// Reports.
	"report is removed": func(c *scene) { c.attached(); c.reports("a"); c.wait() },
	"foreign report":    func(c *scene) { c.attached(); c.reports("a", "pv", "other") },
	// Drivers.
	"driver attaches":           func(c *scene) { c.csiDriver(true); c.settle(); c.attached() },
	"driver does not attach":    func(c *scene) { c.csiDriver(false); c.settle(); c.attached() },
	"driver attaches no longer": func(c *scene) { c.attached(); c.csiDriver(false); c.wait() },
	"room for two":              func(c *scene) { c.csiNode("a", 2); c.disk("two"); c.attached(); c.run("late", "a", of("two")) },
	"room for one":              func(c *scene) { c.csiNode("a", 1); c.disk("two"); c.attached(); c.run("late", "a", of("two")) },
	"driver is silent":          func(c *scene) { c.drives(csiBehavior{isSilent: true}); c.attached(); c.wait(); c.wait() },
	"driver is silent at first": func(c *scene) { c.drives(csiBehavior{isSilent: true}); c.attached(); c.drives(csiBehavior{}) },
	"attach fails":              func(c *scene) { c.drives(csiBehavior{failsAttach: true}); c.attached() },
	"attach fails at first": func(c *scene) {
		c.drives(csiBehavior{failsAttach: true})
		c.attached()
		c.drives(csiBehavior{})
		c.wait()
	},
	"attach fails, pod goes": func(c *scene) {
		c.drives(csiBehavior{failsAttach: true})
		c.attached()
		c.deletePod("web")
		c.wait()
	},
	"attach fails, pod moves": func(c *scene) {
		c.drives(csiBehavior{failsAttach: true})
		c.attached()
		c.deletePod("web")
		c.run("late", "b", of("pv"))
		c.wait()
	},
	"detach fails": func(c *scene) { c.drives(csiBehavior{failsDetach: true}); c.attached(); c.deletePod("web") },
	"detach fails at first": func(c *scene) {
		c.drives(csiBehavior{failsDetach: true})
		c.attached()
		c.deletePod("web")
		c.settle()
		c.drives(csiBehavior{})
		c.wait()
	},
	"detach fails, pod moves": func(c *scene) {
		c.drives(csiBehavior{failsDetach: true})
		c.attached()
		c.deletePod("web")
		c.run("late", "b", of("pv"))
		c.wait()
	},
	"detach fails, pod comes again": func(c *scene) {
		c.drives(csiBehavior{failsDetach: true})
		c.attached()
		c.deletePod("web")
		c.settle()
		c.run("web", "a", of("pv"))
		c.wait()
	},
	// VolumeAttachments of others.
	"attachment is deleted": func(c *scene) { c.attached(); c.endAttachment("pv", "a"); c.wait() },
	"attachment is lost":    func(c *scene) { c.attached(); c.loseAttachment("pv", "a"); c.wait() },
	"attachment exists":     func(c *scene) { c.disk("pv"); c.attachment("pv", "a"); c.settle(); c.run("web", "a", of("pv")) },
	"attachment of another program": func(c *scene) {
		c.disk("pv")
		c.attachment("pv", "a", namedOther)
		c.settle()
		c.run("web", "a", of("pv"))
	},
	"attachment of another program elsewhere": func(c *scene) {
		c.disk("pv")
		c.attachment("pv", "b", namedOther)
		c.settle()
		c.run("web", "a", of("pv"))
	},
	"attachment of another driver": func(c *scene) {
		c.disk("pv")
		c.attachment("pv", "b", ofOtherDriver)
		c.settle()
		c.run("web", "a", of("pv"))
	},
}

// attachInterruptions are those in which the controller restarts.
var attachInterruptions = map[string]interruption{
	"restart":                    {before: func(c *scene) { c.attached() }},
	"pod comes meanwhile":        {before: func(c *scene) { c.disk("pv") }, stopped: func(c *scene) { c.run("web", "a", of("pv")) }},
	"pod goes meanwhile":         {before: func(c *scene) { c.attached() }, stopped: func(c *scene) { c.deletePod("web") }},
	"pod moves meanwhile":        {before: func(c *scene) { c.attached() }, stopped: func(c *scene) { c.deletePod("web"); c.run("late", "b", of("pv")) }},
	"pod finishes meanwhile":     {before: func(c *scene) { c.attached() }, stopped: func(c *scene) { c.editPod("web", inPhase(v1.PodFailed)) }},
	"pod goes after the restart": {before: func(c *scene) { c.attached() }, after: func(c *scene) { c.deletePod("web") }},
	"second writer after the restart": {
		before: func(c *scene) { c.attached() }, after: func(c *scene) { c.run("late", "b", of("pv")) },
	},
	"pod goes meanwhile, volume in use": {
		before:  func(c *scene) { c.attached(); c.uses("a", "pv") },
		stopped: func(c *scene) { c.deletePod("web") },
	},
	"volume unused after the restart": {
		before: func(c *scene) { c.attached(); c.uses("a", "pv"); c.settle(); c.deletePod("web") },
		after:  func(c *scene) { c.uses("a") },
	},
	"both pods come meanwhile": {
		before:  func(c *scene) { c.disk("pv", permits(v1.ReadWriteMany)) },
		stopped: func(c *scene) { c.run("web", "a", of("pv")); c.run("late", "b", of("pv")) },
	},
	"driver answers meanwhile": {
		before:  func(c *scene) { c.drives(csiBehavior{isSilent: true}); c.attached() },
		stopped: func(c *scene) { c.drives(csiBehavior{}) },
	},
	"detach goes on": {
		before:  func(c *scene) { c.drives(csiBehavior{failsDetach: true}); c.attached(); c.deletePod("web") },
		stopped: func(c *scene) { c.drives(csiBehavior{}) },
	},
	"attachment without a pod": {
		before: func(c *scene) { c.disk("pv") }, stopped: func(c *scene) { c.attachment("pv", "a") },
	},
	"attachment with a pod": {
		before: func(c *scene) { c.disk("pv") }, stopped: func(c *scene) { c.attachment("pv", "a"); c.run("web", "a", of("pv")) },
	},
	"attachment elsewhere": {
		before: func(c *scene) { c.disk("pv") }, stopped: func(c *scene) { c.attachment("pv", "b"); c.run("web", "a", of("pv")) },
	},
	"attachment without a volume":      {stopped: func(c *scene) { c.attachment("pv", "a") }},
	"attachment without a pod, in use": {before: func(c *scene) { c.disk("pv"); c.uses("a", "pv") }, stopped: func(c *scene) { c.attachment("pv", "a") }},
	"report without an attachment":     {before: func(c *scene) { c.disk("pv") }, stopped: func(c *scene) { c.reports("a", "pv") }},
	"report without a volume":          {stopped: func(c *scene) { c.reports("a", "pv") }},
	"report is removed meanwhile":      {before: func(c *scene) { c.attached() }, stopped: func(c *scene) { c.reports("a") }},
	"attachment is lost meanwhile":     {before: func(c *scene) { c.attached() }, stopped: func(c *scene) { c.loseAttachment("pv", "a") }},
	"node is deleted meanwhile":        {before: func(c *scene) { c.attached() }, stopped: func(c *scene) { c.deleteNode("a"); c.deletePod("web") }},
}

// Reasons of differences.
const (
	withdrawnFirst = "the report ends first, so that the node cannot begin to use the volume again before the detach"
	isForeign      = "a VolumeAttachment of another program may attach the volume: no second one is made"
)

// attachDifferences are the situations whose end states differ, with the reasons.
var attachDifferences = map[string]string{
	"pod goes, volume in use":           withdrawnFirst,
	"pod goes meanwhile, volume in use": withdrawnFirst,
	"pod moves, volume in use":          withdrawnFirst,
	"one volume of two in use":          withdrawnFirst,
	"not ready, in use, pod goes":       withdrawnFirst,

	"attachment of another program":           isForeign,
	"attachment of another program elsewhere": isForeign,
	"attachment without a volume":             "an orphan is deleted once its node does not use it",

	"detach fails, pod moves": "a volume with one writer is attached to no second node before the driver has detached it from the first one",

	"finished pod keeps its volume":        "the annotation keep-terminated-pod-volumes counts, as in earlier versions of kube-controller-manager",
	"node ceases to be managed, pod comes": "the annotation of the node counts now: kube-controller-manager forgets no node that was managed",
	"node is managed by false":             "the annotation of the node counts with the value true alone",
	"node is deleted, pod goes":            "a node without an object counts as dead after 6 minutes: its programs may run",
	"report is removed":                    "the report is written again at once, not with the next change",
	"foreign report":                       "the report of a volume that is not attached is removed at once, not with the next change",
	"room for one":                         "no more volumes are attached than the CSINode object permits",
	"one handle, two volumes":              "the VolumeAttachment names either of the volumes: the storage is the same",
}
