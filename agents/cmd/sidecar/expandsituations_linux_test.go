package main

import (
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/controllers/expand"
)

// An expandScene is the place of one situation: a namespace, and a volume of its name.
type expandScene struct {
	*scene
	driver *growingDriver
}

func sized(size string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

// disk creates a volume of 5 GiB of the driver, after changes, and the claim data that is bound to it.
func (c *expandScene) disk(changes ...func(*v1.PersistentVolume)) {
	class := "own"
	spec := v1.PersistentVolumeClaimSpec{
		StorageClassName: &class, VolumeName: c.name, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Resources: v1.VolumeResourceRequirements{Requests: sized("5Gi")},
	}
	claim, err := c.admin.CoreV1().PersistentVolumeClaims(c.name).Create(c.ctx, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: spec}, metav1.CreateOptions{})
	c.must(err)
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: v1.PersistentVolumeSpec{
		StorageClassName: class, AccessModes: spec.AccessModes, Capacity: sized("5Gi"), PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: c.name}},
		ClaimRef:               &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.name, Name: "data", UID: claim.UID},
	}}
	for _, change := range changes {
		change(pv)
	}
	_, err = c.admin.CoreV1().PersistentVolumes().Create(c.ctx, pv, metav1.CreateOptions{})
	c.must(err)
	c.editStatus(func(status *v1.PersistentVolumeClaimStatus) {
		status.Phase, status.Capacity, status.AccessModes = v1.ClaimBound, sized("5Gi"), spec.AccessModes
	})
}

// requests sets the request of the claim.
func (c *expandScene) requests(size string) {
	c.edit(func(claim *v1.PersistentVolumeClaim) error {
		claim.Spec.Resources.Requests = sized(size)
		_, err := c.admin.CoreV1().PersistentVolumeClaims(c.name).Update(c.ctx, claim, metav1.UpdateOptions{})
		return err
	})
}

// editStatus changes the status of the claim.
func (c *expandScene) editStatus(change func(*v1.PersistentVolumeClaimStatus)) {
	c.edit(func(claim *v1.PersistentVolumeClaim) error {
		change(&claim.Status)
		_, err := c.admin.CoreV1().PersistentVolumeClaims(c.name).UpdateStatus(c.ctx, claim, metav1.UpdateOptions{})
		return err
	})
}

// edit writes the claim until no other writer interferes.
func (c *expandScene) edit(write func(*v1.PersistentVolumeClaim) error) {
	for c.ctx.Err() == nil {
		claim, err := c.admin.CoreV1().PersistentVolumeClaims(c.name).Get(c.ctx, "data", metav1.GetOptions{})
		if err == nil {
			err = write(claim)
		}
		if !apierrors.IsConflict(err) {
			c.must(err)
			return
		}
	}
}

// grown makes the claim request a size, and waits for the end.
func (c *expandScene) grown(size string) {
	c.requests(size)
	c.settle()
}

// answers sets a code that the driver returns a number of times, 0 for always.
func (c *expandScene) answers(code codes.Code, times int) {
	c.driver.edit(c.name, func(v *growingVolume) { v.outcome = outcome{code, times} })
}

func (c *expandScene) limits(size string) {
	c.driver.edit(c.name, func(v *growingVolume) { v.limit = size })
}

func (c *expandScene) roundsTo(size string) {
	c.driver.edit(c.name, func(v *growingVolume) { v.rounds = size })
}

func (c *expandScene) needsNode() {
	c.driver.edit(c.name, func(v *growingVolume) { v.needsNode = true })
}

// nodeReports sets the state of the expansion, as the node of the volume does.
func (c *expandScene) nodeReports(state v1.ClaimResourceStatus) {
	c.editStatus(func(status *v1.PersistentVolumeClaimStatus) {
		status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: state}
	})
}

// nodeFinishes reports the size of the volume as that of the claim, as the node of the volume does.
func (c *expandScene) nodeFinishes() {
	pv, err := c.admin.CoreV1().PersistentVolumes().Get(c.ctx, c.name, metav1.GetOptions{})
	c.must(err)
	c.editStatus(func(status *v1.PersistentVolumeClaimStatus) {
		status.Capacity, status.Conditions, status.AllocatedResourceStatuses = pv.Spec.Capacity, nil, nil
	})
}

// run creates a pod that uses the claim.
func (c *expandScene) run() {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1.PodSpec{
		NodeName: "node", Containers: []v1.Container{{Name: "web", Image: "web"}},
		Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
	}}
	_, err := c.admin.CoreV1().Pods(c.name).Create(c.ctx, pod, metav1.CreateOptions{})
	c.must(err)
}

func (c *expandScene) deletePod() {
	c.must(c.admin.CoreV1().Pods(c.name).Delete(c.ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}

// Changes of volumes.
func ofOtherDriver(pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = "other.example.com" }

func ofOtherClaim(pv *v1.PersistentVolume) { pv.Spec.ClaimRef.UID = "gone" }

func has(size string) func(*v1.PersistentVolume) {
	return func(pv *v1.PersistentVolume) { pv.Spec.Capacity = sized(size) }
}

func isMarked(pv *v1.PersistentVolume) {
	pv.Annotations = map[string]string{expand.CapacityBeforeAnnotation: "5Gi"}
}

func isBlock(pv *v1.PersistentVolume) {
	mode := v1.PersistentVolumeBlock
	pv.Spec.VolumeMode = &mode
}

func withSecret(pv *v1.PersistentVolume) {
	pv.Spec.CSI.ControllerExpandSecretRef = &v1.SecretReference{Namespace: pv.Name, Name: "key"}
}

// expandSituations are steps of users, drivers and nodes, by name.
var expandSituations = map[string]func(*expandScene){
	"request grows":       func(c *expandScene) { c.disk(); c.requests("9Gi") },
	"request stays":       func(c *expandScene) { c.disk() },
	"request grows twice": func(c *expandScene) { c.disk(); c.grown("9Gi"); c.requests("12Gi") },
	"bytes":               func(c *expandScene) { c.disk(); c.requests("5368709121") },
	"driver rounds up":    func(c *expandScene) { c.disk(); c.roundsTo("4Gi"); c.requests("9Gi") },
	"driver rounds up, request grows below": func(c *expandScene) {
		c.disk()
		c.roundsTo("4Gi")
		c.grown("9Gi")
		c.requests("11Gi")
	},
	"block volume": func(c *expandScene) { c.disk(isBlock); c.requests("9Gi") },
	// Nodes.
	"node has to finish": func(c *expandScene) { c.disk(); c.needsNode(); c.requests("9Gi") },
	"node finishes":      func(c *expandScene) { c.disk(); c.needsNode(); c.grown("9Gi"); c.nodeFinishes() },
	"node finishes twice": func(c *expandScene) {
		c.disk()
		c.needsNode()
		c.grown("9Gi")
		c.nodeFinishes()
		c.settle()
		c.grown("12Gi")
		c.nodeFinishes()
	},
	"node waits, request grows": func(c *expandScene) { c.disk(); c.needsNode(); c.grown("9Gi"); c.requests("12Gi") },
	"node works, request grows": func(c *expandScene) {
		c.disk()
		c.needsNode()
		c.grown("9Gi")
		c.nodeReports(v1.PersistentVolumeClaimNodeResizeInProgress)
		c.requests("12Gi")
	},
	"node finishes, request grows": func(c *expandScene) {
		c.disk()
		c.needsNode()
		c.grown("9Gi")
		c.requests("12Gi")
		c.settle()
		c.nodeFinishes()
	},
	"node waits, request is reduced": func(c *expandScene) {
		c.disk()
		c.needsNode()
		c.grown("9Gi")
		c.requests("7Gi")
	},
	"node gives up": func(c *expandScene) {
		c.disk()
		c.needsNode()
		c.grown("9Gi")
		c.nodeReports(v1.PersistentVolumeClaimNodeResizeInfeasible)
	},
	"node gives up, request is reduced": func(c *expandScene) {
		c.disk()
		c.needsNode()
		c.grown("9Gi")
		c.nodeReports(v1.PersistentVolumeClaimNodeResizeInfeasible)
		c.settle()
		c.requests("7Gi")
	},
	"mark of a node is left":        func(c *expandScene) { c.disk(isMarked) },
	"mark of a node, request grows": func(c *expandScene) { c.disk(isMarked); c.grown("9Gi") },
	// Sizes that the storage cannot have.
	"out of range":                     func(c *expandScene) { c.disk(); c.limits("8Gi"); c.requests("9Gi") },
	"out of range, request is reduced": func(c *expandScene) { c.disk(); c.limits("8Gi"); c.grown("9Gi"); c.requests("7Gi") },
	"out of range, request grows":      func(c *expandScene) { c.disk(); c.limits("8Gi"); c.grown("9Gi"); c.requests("12Gi") },
	"out of range, request is almost withdrawn": func(c *expandScene) {
		c.disk()
		c.limits("8Gi")
		c.grown("9Gi")
		c.requests("5368709121")
	},
	"out of range, then room":  func(c *expandScene) { c.disk(); c.limits("8Gi"); c.grown("9Gi"); c.limits(""); c.requests("10Gi") },
	"grown, then out of range": func(c *expandScene) { c.disk(); c.limits("8Gi"); c.grown("7Gi"); c.requests("9Gi") },
	"invalid":                  func(c *expandScene) { c.disk(); c.answers(codes.InvalidArgument, 0); c.requests("9Gi") },
	"not found":                func(c *expandScene) { c.disk(); c.answers(codes.NotFound, 0); c.requests("9Gi") },
	// Final errors.
	"internal error":          func(c *expandScene) { c.disk(); c.answers(codes.Internal, 0); c.requests("9Gi") },
	"internal error at first": func(c *expandScene) { c.disk(); c.answers(codes.Internal, 2); c.requests("9Gi") },
	"internal error, request reduced": func(c *expandScene) {
		c.disk()
		c.answers(codes.Internal, 0)
		c.grown("9Gi")
		c.answers(codes.OK, 0)
		c.requests("7Gi")
	},
	"permission denied": func(c *expandScene) { c.disk(); c.answers(codes.PermissionDenied, 0); c.requests("9Gi") },
	// Open outcomes.
	"deadline exceeded":         func(c *expandScene) { c.disk(); c.answers(codes.DeadlineExceeded, 0); c.requests("9Gi") },
	"aborted at first":          func(c *expandScene) { c.disk(); c.answers(codes.Aborted, 2); c.requests("9Gi") },
	"unavailable, then reduced": func(c *expandScene) { c.disk(); c.answers(codes.Unavailable, 0); c.grown("9Gi"); c.requests("7Gi") },
	"unavailable, reduced, then success": func(c *expandScene) {
		c.disk()
		c.answers(codes.Unavailable, 0)
		c.grown("9Gi")
		c.requests("7Gi")
		c.settle()
		c.answers(codes.OK, 0)
		c.wait()
	},
	"unavailable, grows, then success": func(c *expandScene) {
		c.disk()
		c.answers(codes.Unavailable, 0)
		c.grown("9Gi")
		c.requests("12Gi")
		c.settle()
		c.answers(codes.OK, 0)
		c.wait()
	},
	// In use.
	"in use": func(c *expandScene) { c.disk(); c.answers(codes.FailedPrecondition, 0); c.run(); c.requests("9Gi") },
	"in use, pod goes": func(c *expandScene) {
		c.disk()
		c.answers(codes.FailedPrecondition, 0)
		c.run()
		c.grown("9Gi")
		c.answers(codes.OK, 0)
		c.deletePod()
		c.wait()
	},
	"in use without pod": func(c *expandScene) { c.disk(); c.answers(codes.FailedPrecondition, 0); c.requests("9Gi") },
	// Other volumes.
	"volume of another driver": func(c *expandScene) { c.disk(ofOtherDriver); c.requests("9Gi") },
	"volume of another claim":  func(c *expandScene) { c.disk(ofOtherClaim); c.requests("9Gi") },
	"volume is large enough":   func(c *expandScene) { c.disk(has("9Gi")); c.requests("9Gi") },
	"volume is larger":         func(c *expandScene) { c.disk(has("12Gi")); c.requests("9Gi") },
	"secret is missing":        func(c *expandScene) { c.disk(withSecret); c.requests("9Gi") },
}

// expandInterruptions are situations in which the program restarts.
var expandInterruptions = map[string]interruption[*expandScene]{
	"request grows meanwhile": {before: func(c *expandScene) { c.disk() }, stopped: func(c *expandScene) { c.requests("9Gi") }},
	"unavailable, reduced meanwhile": {
		before:  func(c *expandScene) { c.disk(); c.answers(codes.Unavailable, 0); c.grown("9Gi") },
		stopped: func(c *expandScene) { c.answers(codes.OK, 0); c.requests("7Gi") },
	},
	"out of range, reduced meanwhile": {
		before:  func(c *expandScene) { c.disk(); c.limits("8Gi"); c.grown("9Gi") },
		stopped: func(c *expandScene) { c.requests("7Gi") },
	},
	"internal error, goes on": {
		before:  func(c *expandScene) { c.disk(); c.answers(codes.Internal, 0); c.grown("9Gi") },
		stopped: func(c *expandScene) { c.answers(codes.OK, 0) },
	},
	"node waits": {before: func(c *expandScene) { c.disk(); c.needsNode(); c.grown("9Gi") }},
	"node finishes meanwhile": {
		before:  func(c *expandScene) { c.disk(); c.needsNode(); c.grown("9Gi") },
		stopped: func(c *expandScene) { c.nodeFinishes() },
	},
	"restart": {before: func(c *expandScene) { c.disk(); c.grown("9Gi") }},
}

// expandDifferences are the situations whose end states differ, with the reasons.
var expandDifferences = map[string]string{
	"node gives up":                "the node is asked again after a pause, not at once",
	"node finishes, request grows": "external-resizer reads its old copy of the volume, and so leaves out the mark for the second growth on the node",
	"volume is larger":             "no size is made smaller: external-resizer requests less than the volume has, and reports it",
	"in use":                       "a volume in use is no final error: the event names the cause, and no condition stays",
	"in use without pod":           "a volume in use is no final error: the event names the cause, and no condition stays",
}
