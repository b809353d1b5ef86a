package main

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/agents/internal/manifest"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/internal/rightstest"
)

// TestKubeRights: the API server denies no call of the program, and the manifest grants no right that the program
// does not exercise. Without any single one of these rights the API server denies it.
func TestKubeRights(t *testing.T) {
	c, dir := newCluster(t), shortDir(t)
	startDriver(t, dir+"/csi.sock")
	c.createNode("node")
	c.createSecret()
	c.createOwner()
	_, err := c.Admin.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.createAttributes("gold")
	o := parse(t, "--csi-address="+dir+"/csi.sock --leader-election --leader-election-namespace=kube-system --enable-capacity "+
		"--capacity-for-immediate-binding --capacity-poll-interval=200ms --capacity-ownerref-level=0 --retry-interval-start=100ms")
	program := c.account.Program
	clientset, err := service.Connect(c.account.Config)
	require.NoError(t, err)
	s := &rightsSteps{cluster: c}
	s.createClaimOf("flipping", "flipping")
	program.RequireRights(nil, func(missing string) rightstest.Rights {
		leases := c.Admin.CoordinationV1().Leases(o.namespace)
		require.NoError(t, leases.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})) // of the last turn
		s.endDiscard()
		return program.Exercise(missing, func(ctx context.Context) error {
			p, err := newProgram(o, io.Discard)
			if err != nil {
				return err
			}
			defer func() { _ = p.prober.Close() }()
			if err = p.runCompanions(ctx, clientset); apierrors.IsForbidden(err) { // without the right to read its pod
				<-ctx.Done()
				return nil
			}
			return err
		}, s.take)
	})
}

// createOwner creates the pod of the program.
func (c *cluster) createOwner() {
	c.Helper()
	account := manifest.Read[*v1.ServiceAccount](c.T, "rbac.yaml")
	_, err := c.Admin.CoreV1().Pods(account.Namespace).Create(c.Context(), &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: environment("POD_NAME")},
		Spec:       v1.PodSpec{ServiceAccountName: account.Name, Containers: []v1.Container{{Name: "sidecar", Image: "sidecar"}}},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
}

func (c *cluster) createAttributes(name string) {
	c.Helper()
	_, err := kubeclient.New(c.Admin).VolumeAttributesClasses().Create(c.Context(), &storagev1beta1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: driverName, Parameters: map[string]string{"iops": "100"},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
}

// rightsSteps are the steps of users by which the program exercises its rights.
type rightsSteps struct {
	*cluster
	turn int
	last time.Time
}

// pace is the time in which the program notices the steps of a turn.
const pace = 300 * time.Millisecond

// take takes the next step: it changes the published capacities, and begins a turn if it is time.
func (s *rightsSteps) take() {
	s.Helper()
	s.changeCapacities()
	if time.Since(s.last) < pace {
		return
	}
	s.turn, s.last = s.turn+1, time.Now()
	s.end(s.turn - 1)
	s.begin(s.turn)
	s.flip()
}

func (s *rightsSteps) name(kind string, turn int) string { return fmt.Sprint(kind, "-", turn) }

// begin creates a class and a class for consumers, a claim of each, and a volume without its claim.
func (s *rightsSteps) begin(turn int) {
	s.Helper()
	grows, forConsumer, options := true, storagev1.VolumeBindingWaitForFirstConsumer, metav1.CreateOptions{}
	for kind, mode := range map[string]*storagev1.VolumeBindingMode{"now": nil, "later": &forConsumer} {
		class := newRightsClass(s.name(kind, turn), "login")
		class.AllowVolumeExpansion, class.VolumeBindingMode = &grows, mode
		_, err := s.Admin.StorageV1().StorageClasses().Create(s.Context(), class, options)
		require.NoError(s, err)
		s.createClaimOf(kind, class.Name)
	}
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.name("old", turn), Annotations: map[string]string{provision.ProvisionedByAnnotation: driverName}},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: s.name("now", turn), PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:               &v1.ObjectReference{Namespace: v1.NamespaceDefault, Name: "gone", UID: "gone"},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: s.name("old", turn)}},
		},
	}
	_, err := s.Admin.CoreV1().PersistentVolumes().Create(s.Context(), pv, options)
	require.NoError(s, err)
}

// flip creates the class "flipping" again with the other of two missing Secrets. The failures alternate, so that the
// program patches an earlier event.
func (s *rightsSteps) flip() {
	s.Helper()
	classes, class := s.Admin.StorageV1().StorageClasses(), newRightsClass("flipping", s.name("missing", s.turn%2))
	_ = classes.Delete(s.Context(), class.Name, metav1.DeleteOptions{}) // none in the first turn
	_, err := classes.Create(s.Context(), class, metav1.CreateOptions{})
	require.NoError(s, err)
}

// endDiscard removes the mark of a discard that the last program has left on the claim "flipping", which would delay the
// claim by ten minutes.
func (s *rightsSteps) endDiscard() {
	s.Helper()
	mark := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, provision.DiscardAnnotation)
	_, err := s.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault).Patch(s.Context(), "flipping", types.MergePatchType, mark, metav1.PatchOptions{})
	require.NoError(s, err)
}

func newRightsClass(name, secret string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driverName, Parameters: map[string]string{
		"csi.storage.k8s.io/secret-name": secret, "csi.storage.k8s.io/secret-namespace": metav1.NamespaceSystem,
	}}
}

// createClaimOf creates a claim of the name of its class with an attributes class, for the node without the driver if
// the class is for consumers.
func (s *rightsSteps) createClaimOf(kind, name string) {
	s.Helper()
	attributes := "gold"
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &name, VolumeAttributesClassName: &attributes, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if kind == "later" {
		claim.Annotations[provision.SelectedNodeAnnotation] = "bare"
	}
	_, err := s.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault).Create(s.Context(), claim, metav1.CreateOptions{})
	require.NoError(s, err)
}

// end attaches and expands the volume of the claim of a turn, if it has one, and deletes the objects of the turn before.
func (s *rightsSteps) end(turn int) {
	s.Helper()
	claims, attachments := s.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault), s.Admin.StorageV1().VolumeAttachments()
	if claim, err := claims.Get(s.Context(), s.name("now", turn), metav1.GetOptions{}); err == nil && claim.Spec.VolumeName != "" {
		_, _ = attachments.Create(s.Context(), &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: claim.Name},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: driverName, NodeName: "node", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &claim.Spec.VolumeName}},
		}, metav1.CreateOptions{})
		patch := []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
		_, _ = claims.Patch(s.Context(), claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}) // or a conflict with the program
	}
	for _, kind := range []string{"now", "later"} {
		name := s.name(kind, turn-1)
		_ = attachments.Delete(s.Context(), name, metav1.DeleteOptions{})
		_ = claims.Delete(s.Context(), name, metav1.DeleteOptions{})
		_ = s.Admin.StorageV1().StorageClasses().Delete(s.Context(), name, metav1.DeleteOptions{})
	}
}

// changeCapacities writes other numbers to the objects of the program, also while it writes them.
func (s *rightsSteps) changeCapacities() {
	s.Helper()
	capacities := s.Admin.StorageV1().CSIStorageCapacities(metav1.NamespaceSystem)
	list, err := capacities.List(s.Context(), metav1.ListOptions{})
	require.NoError(s, err)
	for _, object := range list.Items {
		patch := fmt.Appendf(nil, `{"capacity":"%dGi"}`, s.turn)
		_, _ = capacities.Patch(s.Context(), object.Name, types.MergePatchType, patch, metav1.PatchOptions{}) // or it was deleted
	}
}
