package bind

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimOf returns a state of a claim of the namespace ns.
func claimOf(name, uid, version, volume string, isBound bool, phase v1.PersistentVolumeClaimPhase) *v1.PersistentVolumeClaim {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: version, Annotations: map[string]string{},
	}}
	if isBound {
		claim.Annotations[BindCompletedAnnotation] = yes
	}
	claim.Spec.VolumeName, claim.Status.Phase = volume, phase
	return claim
}

// TestClaimants: the claims of a volume are known in their newest states, and the bound ones apart from the others.
func TestClaimants(t *testing.T) {
	a, b := api.Key{Namespace: "ns", Name: "a"}, api.Key{Namespace: "ns", Name: "b"}
	var c claimants
	require.Empty(t, c.of("pv"))
	c.set(claimOf("a", "1", "5", "", false, v1.ClaimPending))
	require.Empty(t, c.of(""))
	c.set(claimOf("a", "1", "7", "pv", true, v1.ClaimBound))
	c.set(claimOf("b", "2", "8", "pv", false, v1.ClaimPending))
	require.Equal(t, []api.Key{a, b}, c.of("pv"))
	require.Equal(t, []api.Key{a}, c.boundTo("pv", false))

	c.set(claimOf("a", "1", "6", "", false, v1.ClaimPending))
	require.Equal(t, []api.Key{a}, c.boundTo("pv", false), "an older state")
	c.set(claimOf("a", "1", "9", "pv", true, v1.ClaimLost))
	require.Empty(t, c.boundTo("pv", false))
	require.Equal(t, []api.Key{a}, c.boundTo("pv", true))

	c.set(claimOf("b", "3", "11", "other", true, v1.ClaimPending))
	c.forget(claimOf("b", "2", "10", "pv", false, v1.ClaimPending))
	require.Equal(t, []api.Key{b}, c.boundTo("other", false), "another claim of the name")
	require.Equal(t, []api.Key{a}, c.of("pv"))
	c.forget(claimOf("b", "3", "12", "other", true, v1.ClaimBound))
	c.forgetName(a)
	c.forgetName(a)
	require.Empty(t, c.states)
	require.Empty(t, c.claims)
}
