// Peer is sig-storage-lib-external-provisioner as a subject of the benchmark. It is in a directory that the
// go command's patterns leave out, so that the module controllers does not require the library: peer.mod
// of the benchmark has its version.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/volumekit/volumekit/controllers/bench/internal/subject"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func main() {
	if err := subject.Main(run); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

// run runs the controller with its defaults, without the election of a leader.
func run(ctx context.Context, c subject.Config, clientset *kubernetes.Clientset) error {
	options := []func(*controller.ProvisionController) error{controller.LeaderElection(false)}
	if c.Calls > 0 {
		options = append(options, controller.Threadiness(c.Calls))
	}
	controller.NewProvisionController(ctx, clientset, subject.Provisioner, storage{c.Storage}, options...).Run(ctx)
	return nil
}

type storage struct{ subject.Storage }

func (s storage) Provision(_ context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	if err := s.Call(); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: o.PVC.Spec.Resources.Requests[v1.ResourceStorage]},
			PersistentVolumeSource:        subject.Source(o.PVName),
		},
	}, controller.ProvisioningFinished, nil
}

func (s storage) Delete(context.Context, *v1.PersistentVolume) error { return s.Call() }
