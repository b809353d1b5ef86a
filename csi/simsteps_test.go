package csi_test

import (
	"fmt"
	"math"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/csi/csitest"
)

// step takes a step at random.
func (s *simulation) step() {
	s.restartIfKilled()
	switch n := s.IntN(100); {
	case n < 18:
		s.createPod()
	case n < 30:
		s.deletePod()
	case n < 34:
		s.grow()
	case n < 52:
		s.disturb()
	case n < 58:
		s.recover()
	case n < 62:
		s.log("kill")
		s.process.kill()
	case n < 70:
		s.killLater()
	case n < 76:
		s.stopDriver()
	default:
		s.passTime()
	}
}

// createPod creates a pod with one to three volumes.
func (s *simulation) createPod() {
	if len(s.source.all()) >= 5 {
		return
	}
	s.created++
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "space", Name: fmt.Sprint("pod-", s.IntN(3)), UID: types.UID(fmt.Sprint("uid-", s.created)),
	}}
	pod.Spec.ServiceAccountName = "account"
	container := v1.Container{Name: "c"}
	for i, n := range s.Perm(len(simClaims) + 1)[:1+s.IntN(3)] {
		v := v1.Volume{Name: fmt.Sprint("v", i)}
		isBlock := false
		if n < len(simClaims) {
			v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: simClaims[n]}
			isBlock = simClaims[n] == simDevice
		} else {
			v.CSI = &v1.CSIVolumeSource{Driver: simPublisher}
		}
		if isBlock {
			container.VolumeDevices = append(container.VolumeDevices, v1.VolumeDevice{Name: v.Name, DevicePath: "/dev/" + v.Name})
		} else {
			container.VolumeMounts = append(container.VolumeMounts, v1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, v)
	}
	pod.Spec.Containers = []v1.Container{container}
	if s.IntN(3) == 0 {
		group := int64(1000)
		pod.Spec.SecurityContext = &v1.PodSecurityContext{}
		if !usesStager(pod) {
			pod.Spec.SecurityContext.FSGroup = &group // the driver applies it: no test changes owners
		}
	}
	s.log("create %s %v", pod.UID, volumeNames(pod))
	s.source.change(func() { s.source.pods[pod.UID] = pod })
}

// usesStager reports whether a pod has a volume of the driver that does not apply groups.
func usesStager(pod *v1.Pod) bool {
	for _, name := range simClaims {
		if name != simPlain && usesClaim(pod, name) {
			return true
		}
	}
	return false
}

func volumeNames(pod *v1.Pod) (names []string) {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		} else {
			names = append(names, "inline")
		}
	}
	return names
}

func (s *simulation) deletePod() {
	if all := s.source.all(); len(all) > 0 {
		pod := all[s.IntN(len(all))]
		s.log("delete %s", pod.UID)
		s.source.change(func() { delete(s.source.pods, pod.UID) })
	}
}

// grow raises the size of a volume.
func (s *simulation) grow() {
	name := simClaims[s.IntN(len(simClaims)-1)] // the driver that only publishes expands nothing
	s.log("grow %s", name)
	s.source.change(func() { s.source.sizes[name]++ })
}

var simMethods = []csitest.Method{
	csitest.NodeStageVolume, csitest.NodeUnstageVolume, csitest.NodePublishVolume, csitest.NodeUnpublishVolume,
	csitest.NodeExpandVolume, csitest.NodeGetCapabilities, "",
}

// disturb adds a fault.
func (s *simulation) disturb() {
	names := s.driverNames()
	name := names[s.IntN(len(names))]
	fault := csitest.Fault{Method: simMethods[s.IntN(len(simMethods))], After: s.IntN(2) == 0, Times: 1 + s.IntN(3)}
	kind := s.IntN(10)
	switch {
	case kind < 5:
		fault.Code = codes.Code(1 + s.IntN(int(codes.Unauthenticated)))
		if fault.Code == codes.AlreadyExists {
			fault.Code = codes.Internal // the volume would be up with other arguments until its pods end
		}
	case kind < 6:
		fault.Hang = true
	case kind < 8:
		fault.Delay, fault.Late = time.Duration(1+s.IntN(600))*time.Second, s.IntN(2) == 0
	case kind < 9:
		fault.Crash = true
	default:
		fault.Answer = lie(s.IntN(2) == 0)
	}
	if fault.After && isFinal(fault.Code) {
		// A driver that lies about a change leaves a volume that no client can find.
		fault.After = false
	}
	s.log("disturb %s: %q code %v after %v delay %v hang %v late %v crash %v, %d times", name, fault.Method, fault.Code, fault.After,
		fault.Delay, fault.Hang, fault.Late, fault.Crash, fault.Times)
	s.drivers[name].Inject(fault)
}

// isFinal reports whether a code says that nothing has changed.
func isFinal(code codes.Code) bool {
	switch code {
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	}
	return true
}

// lie returns a change of answers to ones that cannot be.
func lie(negative bool) func(proto.Message) {
	size := int64(math.MaxInt64)
	if negative {
		size = math.MinInt64
	}
	return func(m proto.Message) {
		switch r := m.(type) {
		case *csipb.NodeExpandVolumeResponse:
			r.CapacityBytes = size
		case *csipb.NodeGetVolumeStatsResponse:
			for _, usage := range r.GetUsage() {
				usage.Total, usage.Used, usage.Available, usage.Unit = size, size, size, 99
			}
		}
	}
}

// recover ends the faults of a driver, and starts it.
func (s *simulation) recover() {
	names := s.driverNames()
	name := names[s.IntN(len(names))]
	s.log("recover %s", name)
	s.drivers[name].ClearFaults()
	s.startDriver(name)
}

// killLater kills the process at one of its next calls.
func (s *simulation) killLater() {
	s.process.killAfter.Store(s.IntN(2) == 0)
	s.process.killIn.Store(int64(1 + s.IntN(4)))
	s.log("kill at call %d, after it %v", s.process.killIn.Load(), s.process.killAfter.Load())
}

// stopDriver kills a driver, and mostly starts it again at once. Its registration may end.
func (s *simulation) stopDriver() {
	names := s.driverNames()
	name := names[s.IntN(len(names))]
	s.log("driver %s ends", name)
	s.drivers[name].Crash()
	s.drivers[name].unregistered.Store(s.IntN(2) == 0)
	if s.IntN(3) > 0 {
		s.startDriver(name)
	}
}
