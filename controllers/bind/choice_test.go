package bind

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRejectedChoice: a volume that a claim rejects wakes a waiting claim only in a newer state than that of the choice:
// otherwise two claims would wake each other with it again and again.
func TestRejectedChoice(t *testing.T) {
	cluster := apitest.NewServer(apitest.Config{}).Direct()
	c, err := New(Config{Cluster: cluster})
	require.NoError(t, err)
	s := newSituation()
	s.pv.Annotations[RecyclingAnnotation] = "of a user"
	s.pv.Spec.NFS = &v1.NFSVolumeSource{Server: "nas", Path: "/"}
	_, err = cluster.PersistentVolumes().Create(t.Context(), s.pv, metav1.CreateOptions{})
	require.NoError(t, err)
	key := api.Key{Name: "pv"}
	pv, err := c.volumes.Live(t.Context(), key)
	require.NoError(t, err)
	waiting := s.claim.DeepCopy()
	waiting.Name, waiting.UID = "waiting", "other"
	waits := func() bool {
		_, _, n := c.index.Len()
		return n == 1
	}
	for _, isNews := range []bool{false, true} {
		require.Nil(t, c.index.Reserve(waiting))
		c.index.Set(pv)
		turn := &claimTurn{uid: s.claim.UID}
		require.NoError(t, c.takeClaimStep(t.Context(), claimSearch, s.claimView, turn))
		require.Equal(t, "pv", turn.choice)
		if isNews {
			turn.version = "an older one"
		}
		chosen, err := c.confirmChoice(t.Context(), s.claim, turn)
		require.NoError(t, err)
		require.Nil(t, chosen)
		require.Equal(t, !isNews, waits())
		c.index.Delete("pv")
	}
}
