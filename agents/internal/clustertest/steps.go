package clustertest

import (
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProvisionerSteps creates claims by which a provisioner exercises its rights: one for a node, which step
// deletes after it is bound, one of an attributes class, and one of a class whose mode is invalid. step
// changes this mode back and forth, so that the same event repeats.
func (c *Cluster) ProvisionerSteps(provisioner, node string) (step func()) {
	c.Helper()
	c.turn++
	suffix, badModes := strconv.Itoa(c.turn), []string{"rwx", "rw"}
	createBad := func(n int) *storagev1.StorageClass {
		return c.CreateClass(NewClass("bad-"+suffix, provisioner, map[string]string{"mode": badModes[n%len(badModes)]}))
	}
	bad, good := createBad(0), NewClass("good-"+suffix, provisioner, nil)
	forConsumer := storagev1.VolumeBindingWaitForFirstConsumer
	good.VolumeBindingMode = &forConsumer
	good = c.CreateClass(good)
	claim := c.CreateClaim("data-"+suffix, "1Ki", good, OnNode(node))
	c.CreateClaim("bad-"+suffix, "1Ki", bad, OnNode(node))
	c.CreateClaim("gold-"+suffix, "1Ki", good, func(claim *v1.PersistentVolumeClaim) {
		OnNode(node)(claim)
		attributes := "gold"
		claim.Spec.VolumeAttributesClassName = &attributes
	})
	isDeleted, changes, last := false, 0, time.Now()
	return func() {
		claims := c.API.PersistentVolumeClaims(claim.Namespace)
		if !isDeleted {
			current, err := claims.Get(c.Context(), claim.Name, metav1.GetOptions{})
			require.NoError(c, err)
			if isDeleted = current.Status.Phase == v1.ClaimBound; isDeleted {
				require.NoError(c, claims.Delete(c.Context(), claim.Name, metav1.DeleteOptions{}))
			}
		}
		const pace = 300 * time.Millisecond // the provisioner must notice each change
		if time.Since(last) < pace {
			return
		}
		changes, last = changes+1, time.Now()
		require.NoError(c, c.API.StorageClasses().Delete(c.Context(), bad.Name, metav1.DeleteOptions{}))
		createBad(changes)
	}
}
