package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/internal/demonstration"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	volumeName = "pvc-1"
	size       = 1 << 30
)

// A user creates a volume and a pod, with the calls of the cluster's provisioner.
type user struct {
	node   *node
	driver localDriver
	kernel demonstration.Kernel
	dir    string
	out    io.Writer

	created *csipb.Volume // nil: none
}

func (u *user) printf(format string, args ...any) { _, _ = fmt.Fprintf(u.out, format+"\n", args...) }

// run takes the steps of the user.
func (u *user) run(ctx context.Context) error {
	select {
	case <-u.node.registered:
	case <-ctx.Done():
		return ctx.Err()
	}
	u.printf("driver %s is registered", driverName)
	if err := u.createVolume(ctx); err != nil {
		return err
	}
	u.printf("volume %s is created", u.created.VolumeId)
	if err := u.usePod(ctx); err != nil {
		return err
	}
	if err := u.deleteVolume(ctx); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(u.driver.claims, "[^.]*")) // a hidden one is the plugin's
	u.printf("the volume is deleted, directories left: %d", len(left))
	return err
}

// call calls the driver's controller.
func (u *user) call(work func(csipb.ControllerClient) error) error {
	connection, err := grpc.NewClient("unix://"+u.driver.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	return errors.Join(work(csipb.NewControllerClient(connection)), connection.Close())
}

// createVolume creates a volume as external-provisioner does for a claim.
func (u *user) createVolume(ctx context.Context) error {
	return u.call(func(controller csipb.ControllerClient) error {
		response, err := controller.CreateVolume(ctx, &csipb.CreateVolumeRequest{
			Name: volumeName, CapacityRange: &csipb.CapacityRange{RequiredBytes: size},
			VolumeCapabilities: []*csipb.VolumeCapability{{
				AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}},
				AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			}},
			AccessibilityRequirements: &csipb.TopologyRequirement{
				Requisite: []*csipb.Topology{{Segments: map[string]string{topologyKey: nodeName}}},
			},
		})
		u.created = response.GetVolume()
		return err
	})
}

// usePod runs a pod that writes a file to the volume.
func (u *user) usePod(ctx context.Context) error {
	pod, claim, pv := u.objects()
	if err := errors.Join(u.node.pods.SetVolume(pv), u.node.pods.SetClaim(claim), u.node.pods.SetPod(pod)); err != nil {
		return err
	}
	if err := u.node.volumes.WaitForAttachAndMount(ctx, pod); err != nil {
		return err
	}
	path := u.node.volumes.GetMountedVolumesForPod(pod.UID)["data"].Path
	u.printf("pod %s has the volume at %s", pod.Name, strings.TrimPrefix(path, u.dir))
	if err := u.writeFile(path); err != nil {
		return err
	}
	u.node.pods.RemovePod(pod.UID)
	if err := u.node.volumes.WaitForUnmount(ctx, pod); err != nil {
		return err
	}
	u.printf("pod %s is deleted, the volume is unpublished", pod.Name)
	return nil
}

// writeFile writes a file as the pod, and reads it from the driver's directory.
func (u *user) writeFile(path string) error {
	name, err := u.kernel.RealPath(filepath.Join(path, "greeting"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(name, []byte("hello"), 0o600); err != nil {
		return err
	}
	stored := filepath.Join(u.driver.claims, volumeName, "greeting")
	text, err := os.ReadFile(stored)
	u.printf("%s: %s", strings.TrimPrefix(stored, u.dir), text)
	return err
}

// objects returns a pod with a claim that is bound to the volume.
func (u *user) objects() (*v1.Pod, *v1.PersistentVolumeClaim, *v1.PersistentVolume) {
	capacity := v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: "data", UID: "claim-1"},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: volumeName, AccessModes: modes, Resources: v1.VolumeResourceRequirements{Requests: capacity}},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: capacity},
	}
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName},
		Spec: v1.PersistentVolumeSpec{
			Capacity: capacity, AccessModes: modes,
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: u.created.VolumeId, VolumeAttributes: u.created.VolumeContext,
			}},
			ClaimRef: &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound},
	}
	source := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: "web", UID: types.UID("pod-1")},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "web", Image: "web", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			Volumes:    []v1.Volume{{Name: "data", VolumeSource: source}},
		},
	}
	return pod, claim, pv
}

// deleteVolume deletes the volume as external-provisioner does for a released volume: again and again
// while the node has it staged.
func (u *user) deleteVolume(ctx context.Context) error {
	return u.call(func(controller csipb.ControllerClient) error {
		for {
			_, err := controller.DeleteVolume(ctx, &csipb.DeleteVolumeRequest{VolumeId: u.created.VolumeId})
			switch status.Code(err) {
			case codes.OK:
				u.created = nil
				return nil
			case codes.FailedPrecondition, codes.Aborted:
				time.Sleep(10 * time.Millisecond)
			default:
				return err
			}
		}
	})
}

// cleanUp removes the pod and the volume, if an error or a signal has ended the steps.
func (u *user) cleanUp(ctx context.Context) error {
	if u.created == nil {
		return nil
	}
	pod, _, _ := u.objects()
	u.node.pods.RemovePod(pod.UID)
	return errors.Join(u.node.volumes.WaitForUnmount(ctx, pod), u.deleteVolume(ctx))
}
