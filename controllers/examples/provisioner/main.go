package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/protect"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

func main() {
	root, err := os.MkdirTemp("", "directories-")
	if err == nil {
		err = errors.Join(run(context.Background(), log.New(os.Stdout, "", 0), root), os.Remove(root))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run starts a cluster in memory with the provisioner, and takes the steps of a user.
func run(ctx context.Context, out *log.Logger, root string) error {
	cluster := apitest.NewServer(apitest.Config{}).Connect("provisioner") // on a real cluster: kubeclient.New(clientset)
	provisioning, err := provision.New(provision.Config{
		Name: provisioner, Provisioner: directories{root, "node-1"}, Cluster: cluster,
		Events: func(e api.Event) { out.Printf("event %s: %s", e.Reason, e.Message) },
	})
	binding, errOfBind := bind.New(bind.Config{Cluster: cluster}) // a real cluster has these two
	protecting, errOfProtect := protect.New(protect.Config{Cluster: cluster})
	if err := errors.Join(err, errOfBind, errOfProtect); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	controllers := []func(context.Context) error{provisioning.Run, binding.Run, protecting.Run}
	ended := make(chan error, len(controllers))
	for _, run := range controllers {
		go func() { ended <- run(ctx); stop() }()
	}
	err = use(ctx, cluster, out)
	stop()
	for range controllers {
		err = errors.Join(err, <-ended)
	}
	return err
}

// use creates a claim, and deletes it once it is bound.
func use(ctx context.Context, cluster api.Cluster, out *log.Logger) error {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "directories"}, Provisioner: provisioner}
	if _, err := cluster.StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	claims := cluster.PersistentVolumeClaims(v1.NamespaceDefault)
	claim, err := claims.Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		claim, err = claims.Get(ctx, claim.Name, metav1.GetOptions{})
		return err == nil && claim.Status.Phase == v1.ClaimBound, err
	})
	if err != nil {
		return fmt.Errorf("wait for a volume: %w", err)
	}
	out.Printf("claim %s is bound to %s", claim.Name, claim.Spec.VolumeName)
	if err := claims.Delete(ctx, claim.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := cluster.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			out.Printf("%s is deleted with the claim", claim.Spec.VolumeName)
			return true, nil
		}
		return false, err
	})
}
