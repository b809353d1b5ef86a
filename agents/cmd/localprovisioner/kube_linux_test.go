package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/agents/internal/manifest"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/rightstest"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKubeProgram: with the service account of the manifests, a claim becomes a directory on its node,
// and both go away again. The event of the claim names a missing quota.
func TestKubeProgram(t *testing.T) {
	s := clustertest.Start(t)
	program := s.NewAccount("rbac.yaml")
	c := clustertest.New(t, kubeclient.New(s.Admin))
	c.CreateNode("node-1", "host-1")
	class := c.CreateClass(manifest.Read[*storagev1.StorageClass](t, "class.yaml"))
	args := []string{"-kubeconfig", program.Kubeconfig(), "-node", "node-1", "-claims", testbed.Dir(t), "-root", testbed.Dir(t)}
	c.Start(func(ctx context.Context) error {
		var out bytes.Buffer
		if status := run(ctx, args, &out, &out); status != 0 {
			return fmt.Errorf("exit status %d: %s", status, &out)
		}
		return nil
	})
	claim := c.CreateClaim("data", "1Mi", class, clustertest.OnNode("node-1"))
	pv := c.WaitUntilBound(claim)
	require.DirExists(t, pv.Spec.Local.Path)
	c.Eventually("no event names the missing quota", func() bool {
		selector := fmt.Sprintf("reason=ProvisioningSucceeded,involvedObject.uid=%s", claim.UID)
		events, err := c.API.Events(claim.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		return err == nil && len(events.Items) == 1 && strings.Contains(events.Items[0].Message, "no quota enforces the size: ")
	})
	c.Release(claim)
	c.WaitUntilDeleted(claim)
	require.NoDirExists(t, pv.Spec.Local.Path)
}

// TestKubeRights: the API server denies no call of the program, and the manifest grants no right that the
// program does not exercise. Without any single one of these rights the API server denies it.
func TestKubeRights(t *testing.T) {
	s := clustertest.Start(t)
	program := s.NewAccount("rbac.yaml")
	c := clustertest.New(t, kubeclient.New(s.Admin))
	c.CreateNode("node-1", "host-1")
	o := options{name: "volumekit.io/local", node: "node-1", root: testbed.Dir(t), claims: cli.Paths{testbed.Dir(t)}}
	program.RequireRights(nil, func(missing string) rightstest.Rights {
		return program.Exercise(missing, func(ctx context.Context) error {
			p, err := connect(ctx, program.Config, o)
			if err != nil {
				return err
			}
			p.mounter, p.logger = mounttest.NewFake(mount.Config{}), slog.New(slog.DiscardHandler)
			return p.run(ctx)
		}, c.ProvisionerSteps(o.name, o.node))
	})
}

// TestKubeGoneNodesRights is TestKubeRights for the program with -gone-nodes.
func TestKubeGoneNodesRights(t *testing.T) {
	s := clustertest.Start(t)
	program := s.NewAccount("gonenodes-rbac.yaml")
	c := clustertest.New(t, kubeclient.New(s.Admin))
	class := c.CreateClass(manifest.Read[*storagev1.StorageClass](t, "class.yaml"))
	o := options{name: class.Provisioner, goneNodes: true, namespace: metav1.NamespaceSystem}
	turn := 0
	program.RequireRights(nil, func(missing string) rightstest.Rights {
		turn++
		claim := c.CreateClaim(fmt.Sprint("data-", turn), "1Ki", class, func(claim *v1.PersistentVolumeClaim) {
			clustertest.OnNode("gone")(claim)
			claim.Finalizers = []string{provision.ClaimFinalizer}
		})
		createDeletedVolume(c, fmt.Sprint("old-", turn), o.name)
		leases := s.Admin.CoordinationV1().Leases(o.namespace)
		require.NoError(t, leases.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})) // of the last turn
		return program.Exercise(missing, func(ctx context.Context) error {
			p, err := connect(ctx, program.Config, o)
			if err != nil {
				return err
			}
			p.logger = slog.New(slog.DiscardHandler)
			return p.run(ctx)
		}, func() { selectAgain(c, claim) })
	})
}

// selectAgain selects the node that is gone for a claim that has none.
func selectAgain(c *clustertest.Cluster, claim *v1.PersistentVolumeClaim) {
	c.Helper()
	claims := c.API.PersistentVolumeClaims(claim.Namespace)
	current, err := claims.Get(c.Context(), claim.Name, metav1.GetOptions{})
	require.NoError(c, err)
	if current.Annotations[provision.SelectedNodeAnnotation] != "" {
		return
	}
	clustertest.OnNode("gone")(current)
	_, err = claims.Update(c.Context(), current, metav1.UpdateOptions{})
	require.NoError(c, err)
}

// createDeletedVolume creates a released volume of a node that is gone, and deletes it as a user.
func createDeletedVolume(c *clustertest.Cluster, name, provisioner string) {
	c.Helper()
	onHost := v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{"gone"}}
	_, err := c.API.PersistentVolumes().Create(c.Context(), &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Finalizers: []string{provision.VolumeFinalizer},
			Annotations: map[string]string{provision.ProvisionedByAnnotation: provisioner},
		},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt/" + name}},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			AccessModes:                   []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Capacity:                      v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Ki")},
			ClaimRef:                      &v1.ObjectReference{Namespace: v1.NamespaceDefault, Name: "gone", UID: "gone"},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
				{MatchExpressions: []v1.NodeSelectorRequirement{onHost}},
			}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	c.Eventually("the volume is not released", func() bool {
		pv, err := c.API.PersistentVolumes().Get(c.Context(), name, metav1.GetOptions{})
		return err == nil && pv.Status.Phase == v1.VolumeReleased
	})
	require.NoError(c, c.API.PersistentVolumes().Delete(c.Context(), name, metav1.DeleteOptions{}))
}
