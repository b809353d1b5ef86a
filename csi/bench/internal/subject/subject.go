package subject

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Driver is the name of the driver.
	Driver = "bench.example.com"
	// Node is the name of the node.
	Node = "node-1"
	// Variable has the Config as JSON in the environment of the process.
	Variable = "VOLUMEKIT_BENCH_CSI"
)

// A Config configures the process of a subject.
type Config struct {
	Subject string // the name, for a program with several
	Socket  string // of the driver
	Root    string // the kubelet's directory, which exists
}

// A Client brings volumes up for one pod, and takes them down, by the number of the volume.
type Client struct{ Up, Down func(number int) error }

// Work is what an order asks for.
type Work string

// The works.
const (
	UpAndDown Work = "up and down" // each volume, one after the other
	Up        Work = "up"
	Down      Work = "down"
	Idle      Work = "idle" // for a time
)

// An Order asks for the work on volumes.
type Order struct {
	Work        Work
	First, Last int           // numbers of the volumes
	Abreast     int           // volumes at the same time
	Time        time.Duration // of Idle
}

// A Report is the outcome of an order.
type Report struct {
	Times      []time.Duration // of each volume
	All        time.Duration   // of all volumes
	CPU        time.Duration   // processor time of the process
	Goroutines int             // after the work
	Error      string
}

// Volume returns the persistent volume of a number.
func Volume(number int) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pvc-%d", number)},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: Driver, VolumeHandle: fmt.Sprintf("handle-%d", number), FSType: "ext4", VolumeAttributes: map[string]string{"pool": "fast"},
			}},
		},
	}
}

// Pod returns the pod of all volumes.
func Pod() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"}}
}

// Object returns the object of the driver, with the defaults of the API server.
func Object() *storagev1.CSIDriver {
	no, policy := false, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: Driver}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: &no, PodInfoOnMount: &no, RequiresRepublish: &no, SELinuxMount: &no, StorageCapacity: &no,
		FSGroupPolicy: &policy, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
	}}
}
