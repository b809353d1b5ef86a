package contract

import (
	"github.com/volumekit/volumekit/internal/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (c *contract) newClaim(name string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{ObjectMeta: c.meta(name), Spec: v1.PersistentVolumeClaimSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Resources:   v1.VolumeResourceRequirements{Requests: size("1Gi")},
	}}
}

// Values of the allowVolumeExpansion of a class.
const (
	expandable    = true
	notExpandable = false
)

// createBound creates a bound claim, and its class. expansion is the allowVolumeExpansion of the
// class.
func (c *contract) createBound(name string, expansion bool) *v1.PersistentVolumeClaim {
	class := c.newClass(name)
	class.AllowVolumeExpansion = &expansion
	create(c, c.Cluster.StorageClasses(), class)
	claim := c.newClaim(name)
	claim.Spec.StorageClassName = &class.Name
	claim = create(c, c.claims(), claim)
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, Capacity: size("1Gi")}
	return updateStatus(c, c.claims(), claim)
}

// claimUpdateRefused requires that the update of a claim fails with the reason.
func (c *contract) claimUpdateRefused(claim *v1.PersistentVolumeClaim, reason metav1.StatusReason) {
	c.Helper()
	_, err := c.claims().Update(c.ctx, claim, metav1.UpdateOptions{})
	c.refused(err, reason)
}

var claimTests = map[string]func(*contract){
	"ClaimDefaults": func(c *contract) {
		claim := c.newClaim("a")
		claim.Status.Phase = v1.ClaimBound
		created := create(c, c.claims(), claim)
		require.Equal(c, v1.ClaimPending, created.Status.Phase)
		require.Equal(c, pointer(v1.PersistentVolumeFilesystem), created.Spec.VolumeMode)
		require.Equal(c, []string{"kubernetes.io/pvc-protection"}, created.Finalizers)
		require.Nil(c, created.Spec.StorageClassName)
		require.Zero(c, created.Generation)
	},
	"QuantitiesAreCanonical": func(c *contract) {
		claim := c.newClaim("a")
		claim.Spec.Resources.Requests = size("2048Mi")
		created := create(c, c.claims(), claim)
		request := created.Spec.Resources.Requests[v1.ResourceStorage]
		require.Equal(c, "2Gi", request.String())
	},
	"InvalidClaims": func(c *contract) {
		for name, breaks := range map[string]func(*v1.PersistentVolumeClaim){
			"no access mode":      func(claim *v1.PersistentVolumeClaim) { claim.Spec.AccessModes = nil },
			"unknown access mode": func(claim *v1.PersistentVolumeClaim) { claim.Spec.AccessModes[0] = "Some" },
			"no request":          func(claim *v1.PersistentVolumeClaim) { claim.Spec.Resources.Requests = nil },
			"zero":                func(claim *v1.PersistentVolumeClaim) { claim.Spec.Resources.Requests = size("0") },
			"unknown volume mode": func(claim *v1.PersistentVolumeClaim) {
				claim.Spec.VolumeMode = pointer(v1.PersistentVolumeMode("Some"))
			},
			"two exclusive modes": func(claim *v1.PersistentVolumeClaim) {
				claim.Spec.AccessModes = append(claim.Spec.AccessModes, v1.ReadWriteOncePod)
			},
		} {
			claim := c.newClaim("a")
			breaks(claim)
			_, err := c.claims().Create(c.ctx, claim, metav1.CreateOptions{})
			require.Error(c, err, name)
			c.refused(err, metav1.StatusReasonInvalid)
		}
	},
	"VolumeNameIsSetOnce": func(c *contract) {
		claim := create(c, c.claims(), c.newClaim("a"))
		claim.Spec.VolumeName = "pv-1"
		claim = update(c, c.claims(), claim)
		claim.Spec.VolumeName = "pv-2"
		c.claimUpdateRefused(claim, metav1.StatusReasonInvalid)
		claim.Spec.VolumeName = ""
		c.claimUpdateRefused(claim, metav1.StatusReasonInvalid)
	},
	"ClaimSpecIsImmutable": func(c *contract) {
		created := create(c, c.claims(), c.newClaim("a"))
		for name, change := range map[string]func(*v1.PersistentVolumeClaim){
			"access modes": func(claim *v1.PersistentVolumeClaim) { claim.Spec.AccessModes[0] = v1.ReadWriteMany },
			"selector":     func(claim *v1.PersistentVolumeClaim) { claim.Spec.Selector = &metav1.LabelSelector{} },
			"volume mode":  func(claim *v1.PersistentVolumeClaim) { claim.Spec.VolumeMode = pointer(v1.PersistentVolumeBlock) },
			"limits":       func(claim *v1.PersistentVolumeClaim) { claim.Spec.Resources.Limits = size("5Gi") },
		} {
			claim := created.DeepCopy()
			change(claim)
			_, err := c.claims().Update(c.ctx, claim, metav1.UpdateOptions{})
			require.Error(c, err, name)
			c.refused(err, metav1.StatusReasonInvalid)
		}
	},
	"ClassIsSetOnce": func(c *contract) {
		claim := create(c, c.claims(), c.newClaim("a"))
		claim.Spec.StorageClassName = pointer("late")
		claim = update(c, c.claims(), claim)
		claim.Spec.StorageClassName = pointer("other")
		c.claimUpdateRefused(claim, metav1.StatusReasonInvalid)
		claim.Spec.StorageClassName = nil
		c.claimUpdateRefused(claim, metav1.StatusReasonInvalid)
	},
	"EmptyClassIsFinal": func(c *contract) {
		claim := c.newClaim("a")
		claim.Spec.StorageClassName = pointer("")
		claim = create(c, c.claims(), claim)
		require.Equal(c, pointer(""), claim.Spec.StorageClassName)
		claim.Spec.StorageClassName = pointer("late")
		c.claimUpdateRefused(claim, metav1.StatusReasonInvalid)
	},
	"ClassFromAnnotation": func(c *contract) {
		claim := c.newClaim("a")
		claim.Annotations = map[string]string{v1.BetaStorageClassAnnotation: "old"}
		claim = create(c, c.claims(), claim)
		changed := claim.DeepCopy()
		changed.Annotations[v1.BetaStorageClassAnnotation] = "new"
		c.claimUpdateRefused(changed, metav1.StatusReasonInvalid)
		changed = claim.DeepCopy()
		changed.Spec.StorageClassName = pointer("new")
		c.claimUpdateRefused(changed, metav1.StatusReasonInvalid)
		claim.Spec.StorageClassName = pointer("old")
		update(c, c.claims(), claim)
	},
	"GrowthOfUnboundClaim": func(c *contract) {
		claim := create(c, c.claims(), c.newClaim("a"))
		claim.Spec.Resources.Requests = size("2Gi")
		c.claimUpdateRefused(claim, metav1.StatusReasonInvalid)
	},
	"GrowthOfBoundClaim": func(c *contract) {
		claim := c.createBound("a", expandable)
		claim.Spec.Resources.Requests = size("2Gi")
		request := update(c, c.claims(), claim).Spec.Resources.Requests[v1.ResourceStorage]
		require.Equal(c, "2Gi", request.String())
	},
	"GrowthThatTheClassForbids": func(c *contract) {
		claim := c.createBound("a", notExpandable)
		claim.Spec.Resources.Requests = size("2Gi")
		c.claimUpdateRefused(claim, metav1.StatusReasonForbidden)
	},
	"GrowthWithoutClass": func(c *contract) {
		claim := create(c, c.claims(), c.newClaim("a"))
		claim.Status.Phase = v1.ClaimBound
		claim = updateStatus(c, c.claims(), claim)
		claim.Spec.Resources.Requests = size("2Gi")
		c.claimUpdateRefused(claim, metav1.StatusReasonForbidden)
	},
	"RequestMayFallAboveCapacity": func(c *contract) {
		claim := c.createBound("a", expandable)
		claim.Spec.Resources.Requests = size("3Gi")
		claim = update(c, c.claims(), claim)
		claim.Spec.Resources.Requests = size("2Gi")
		claim = update(c, c.claims(), claim)
		claim.Spec.Resources.Requests = size("1Gi")
		c.claimUpdateRefused(claim, metav1.StatusReasonInvalid)
	},
	"ClaimStatus": func(c *contract) {
		claim := create(c, c.claims(), c.newClaim("a"))
		claim.Status.AllocatedResources = size("2Gi")
		claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending}
		claim.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimResizing, Status: v1.ConditionTrue}}
		updated := updateStatus(c, c.claims(), claim)
		require.Equal(c, v1.PersistentVolumeClaimNodeResizePending, updated.Status.AllocatedResourceStatuses[v1.ResourceStorage])
		allocated := updated.Status.AllocatedResources[v1.ResourceStorage]
		require.Zero(c, allocated.Cmp(resource.MustParse("2Gi")))
		require.Len(c, updated.Status.Conditions, 1)
		patched, err := c.claims().Patch(c.ctx, "a", types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"FileSystemResizePending","status":"True"}]}}`), metav1.PatchOptions{}, "status")
		require.NoError(c, err)
		require.Len(c, patched.Status.Conditions, 2, "conditions merge by type")
	},
	"DeletedClaimWaitsForProtection": func(c *contract) {
		create(c, c.claims(), c.newClaim("a"))
		require.NoError(c, c.claims().Delete(c.ctx, "a", metav1.DeleteOptions{}))
		claim, err := c.claims().Get(c.ctx, "a", metav1.GetOptions{})
		require.NoError(c, err)
		require.NotNil(c, claim.DeletionTimestamp)
		claim.Finalizers = nil
		update(c, c.claims(), claim)
		_, err = c.claims().Get(c.ctx, "a", metav1.GetOptions{})
		c.refused(err, metav1.StatusReasonNotFound)
	},
	"DataSources": func(c *contract) {
		claim := c.newClaim("a")
		claim.Spec.DataSource = &v1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "source"}
		created := create(c, c.claims(), claim)
		require.NotNil(c, created.Spec.DataSourceRef)
		require.Equal(c, "source", created.Spec.DataSourceRef.Name)
	},
}

func (c *contract) newClass(name string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: c.clusterMeta(name), Provisioner: "example.com/provisioner"}
}
