package neverstuck

import (
	"context"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rowsOfLocalClaims returns rows about directories that package local makes for claims.
func rowsOfLocalClaims() map[string]row {
	plugin := func(r *rig) *local.ProvisioningPlugin {
		return local.NewProvisioning(local.ProvisioningConfig{
			Config: local.Config{Mounter: r.mounter}, Provisioner: "example.com/local", ClaimRoots: []string{r.disks}, Hostname: "node",
		})
	}
	initialised := func(r *rig) *local.ProvisioningPlugin {
		p := plugin(r)
		require.NoError(r, p.Init(r.Context(), r.host))
		return p
	}
	return map[string]row{
		"local.ProvisioningPlugin.Init": func(r *rig) func(context.Context) error {
			p := plugin(r)
			return func(ctx context.Context) error { return p.Init(ctx, r.host) }
		},
		"local.claimProvisioner.Provision": func(r *rig) func(context.Context) error {
			claim := &v1.PersistentVolumeClaim{}
			claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Ki")}
			p, err := initialised(r).NewProvisioner(volume.VolumeOptions{PVName: "vol", PVC: claim})
			require.NoError(r, err)
			return func(ctx context.Context) error { _, err := p.Provision(ctx); return err }
		},
		"local.claimDeleter.Delete": func(r *rig) func(context.Context) error {
			spec := localSpec(r.disks + "/vol")
			hostname := v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{"node"}}
			spec.PersistentVolume.ObjectMeta = metav1.ObjectMeta{Name: "vol"}
			spec.PersistentVolume.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{hostname}}},
			}}
			d, err := initialised(r).NewDeleter(spec)
			require.NoError(r, err)
			return d.Delete
		},
	}
}
