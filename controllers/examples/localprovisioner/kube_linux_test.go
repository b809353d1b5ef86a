package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/examples/internal/clustertest"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/rightstest"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKubeProgram: with the service account of the manifests, a claim becomes a directory on its node,
// and both go away again. The event of the claim names a missing quota.
func TestKubeProgram(t *testing.T) {
	s := clustertest.Start(t, "rbac.yaml")
	c := clustertest.New(t, kubeclient.New(s.Admin))
	c.CreateNode("node-1", "host-1")
	class := c.CreateClass(clustertest.Object[*storagev1.StorageClass](t, "class.yaml"))
	args := []string{"-kubeconfig", s.Kubeconfig(), "-node", "node-1", "-claims", testbed.Dir(t), "-root", testbed.Dir(t)}
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
	s := clustertest.Start(t, "rbac.yaml")
	c := clustertest.New(t, kubeclient.New(s.Admin))
	c.CreateNode("node-1", "host-1")
	o := options{name: "volumekit.io/local", node: "node-1", root: testbed.Dir(t), claims: cli.Paths{testbed.Dir(t)}}
	s.RequireRights(nil, func(missing string) rightstest.Rights {
		return s.Exercise(missing, func(ctx context.Context) error {
			p, err := connect(ctx, s.Account, o)
			if err != nil {
				return err
			}
			p.mounter, p.logger = mounttest.NewFake(mount.Config{}), slog.New(slog.DiscardHandler)
			return p.run(ctx)
		}, c.ProvisionerSteps(o.name, o.node))
	})
}
