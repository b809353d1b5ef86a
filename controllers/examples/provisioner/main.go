// Provisioner shows storage on demand: a claim becomes a directory, and the directory goes with the claim. It runs on a
// cluster in memory: go run ./controllers/examples/provisioner prints
//
//	claim data is bound to pvc-1
//	pvc-1 is deleted with the claim
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/protect"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/util/scrub"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// directories provisions a directory below root for each claim, on the only node, on which it runs.
type directories struct{ root, node string }

// Provision makes the directory of a volume. A second call for the volume finds the directory.
func (d directories) Provision(_ context.Context, options provision.Options) (*v1.PersistentVolume, error) {
	for name, value := range options.StorageClass.Parameters {
		return nil, field.Invalid(field.NewPath("parameters").Key(name), value, "the class must have no parameter")
	}
	path := filepath.Join(d.root, options.PVName)
	if err := os.Mkdir(path, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	pv := &v1.PersistentVolume{}
	pv.Spec.Local = &v1.LocalVolumeSource{Path: path}
	here := v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{d.node}}
	terms := []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{here}}}
	pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms}}
	return pv, nil
}

// Delete removes the directory of a volume with all its files. A directory that is gone is no error.
func (d directories) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	path := filepath.Join(d.root, pv.Name)
	dir, err := scrub.Open(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	_, err = dir.Empty(ctx, scrub.Options{})
	return errors.Join(err, dir.Close(), os.Remove(path))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := os.MkdirTemp("", "directories-")
	if err == nil {
		err = errors.Join(run(ctx, root), os.RemoveAll(root))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run starts the provisioner and two controllers that a real cluster has, creates a claim, and deletes it once it is bound.
func run(ctx context.Context, root string) error {
	const name = "example.com/directories"
	cluster := apitest.NewServer(apitest.Config{}).Connect("provisioner") // on a real cluster: kubeclient.New(clientset)
	provisioning, err := provision.New(provision.Config{Name: name, Provisioner: directories{root, "node-1"}, Cluster: cluster})
	binding, errOfBind := bind.New(bind.Config{Cluster: cluster})
	protecting, errOfProtect := protect.New(protect.Config{Cluster: cluster})
	if err := errors.Join(err, errOfBind, errOfProtect); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	go func() { stop(provisioning.Run(ctx)) }()
	go func() { stop(binding.Run(ctx)) }()
	go func() { stop(protecting.Run(ctx)) }()

	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "directories"}, Provisioner: name}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.StorageClassName, claim.Spec.AccessModes = &class.Name, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	claims := cluster.PersistentVolumeClaims(v1.NamespaceDefault)
	_, err = cluster.StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	if err == nil {
		_, err = claims.Create(ctx, claim, metav1.CreateOptions{})
	}
	for ; err == nil && claim.Status.Phase != v1.ClaimBound; time.Sleep(10 * time.Millisecond) {
		claim, err = claims.Get(ctx, "data", metav1.GetOptions{})
		err = errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	pv := claim.Spec.VolumeName
	fmt.Println("claim data is bound to", pv)
	for err = claims.Delete(ctx, "data", metav1.DeleteOptions{}); err == nil; time.Sleep(10 * time.Millisecond) {
		_, err = cluster.PersistentVolumes().Get(ctx, pv, metav1.GetOptions{})
		err = errors.Join(err, context.Cause(ctx))
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	fmt.Println(pv, "is deleted with the claim")
	return nil
}
