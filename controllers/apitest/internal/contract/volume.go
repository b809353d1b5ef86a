package contract

import (
	"github.com/volumekit/volumekit/internal/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (c *contract) newVolume(name string) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: c.clusterMeta(name), Spec: v1.PersistentVolumeSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, Capacity: size("1Gi"),
		PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/data"}},
	}}
}

var volumeTests = map[string]func(*contract){
	"VolumeDefaults": func(c *contract) {
		volume := c.newVolume("a")
		volume.Status.Phase = v1.VolumeBound
		created := create(c, c.volumes(), volume)
		require.Equal(c, v1.VolumePending, created.Status.Phase)
		require.NotNil(c, created.Status.LastPhaseTransitionTime)
		require.Equal(c, v1.PersistentVolumeReclaimRetain, created.Spec.PersistentVolumeReclaimPolicy)
		require.Equal(c, pointer(v1.PersistentVolumeFilesystem), created.Spec.VolumeMode)
		require.Equal(c, pointer(v1.HostPathUnset), created.Spec.HostPath.Type)
		require.Equal(c, []string{"kubernetes.io/pv-protection"}, created.Finalizers)
		require.Zero(c, created.Namespace)
	},
	"InvalidVolumes": func(c *contract) {
		for name, breaks := range map[string]func(*v1.PersistentVolume){
			"no access mode": func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = nil },
			"no capacity":    func(pv *v1.PersistentVolume) { pv.Spec.Capacity = nil },
			"zero":           func(pv *v1.PersistentVolume) { pv.Spec.Capacity = size("0") },
			"no source":      func(pv *v1.PersistentVolume) { pv.Spec.HostPath = nil },
			"two sources": func(pv *v1.PersistentVolume) {
				pv.Spec.NFS = &v1.NFSVolumeSource{Server: "s", Path: "/p"}
			},
			"unknown policy": func(pv *v1.PersistentVolume) { pv.Spec.PersistentVolumeReclaimPolicy = "Some" },
			"local, no affinity": func(pv *v1.PersistentVolume) {
				pv.Spec.HostPath, pv.Spec.Local = nil, &v1.LocalVolumeSource{Path: "/p"}
			},
		} {
			volume := c.newVolume("a")
			breaks(volume)
			_, err := c.volumes().Create(c.ctx, volume, metav1.CreateOptions{})
			require.Error(c, err, name)
			c.refused(err, metav1.StatusReasonInvalid)
		}
	},
	"VolumeSourceIsImmutable": func(c *contract) {
		volume := create(c, c.volumes(), c.newVolume("a"))
		volume.Spec.HostPath.Path = "/other"
		_, err := c.volumes().Update(c.ctx, volume, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"VolumeModeIsImmutable": func(c *contract) {
		volume := create(c, c.volumes(), c.newVolume("a"))
		volume.Spec.VolumeMode = pointer(v1.PersistentVolumeBlock)
		_, err := c.volumes().Update(c.ctx, volume, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"VolumeSpecMayChange": func(c *contract) {
		volume := create(c, c.volumes(), c.newVolume("a"))
		volume.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
		volume.Spec.Capacity = size("5Gi")
		volume.Spec.MountOptions = []string{"noatime"}
		volume.Spec.AccessModes = append(volume.Spec.AccessModes, v1.ReadOnlyMany)
		updated := update(c, c.volumes(), volume)
		require.Equal(c, v1.PersistentVolumeReclaimDelete, updated.Spec.PersistentVolumeReclaimPolicy)
		require.Equal(c, []string{"noatime"}, updated.Spec.MountOptions)
	},
	"ClaimRefMayChange": func(c *contract) {
		volume := create(c, c.volumes(), c.newVolume("a"))
		volume.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.namespace, Name: "a"}
		volume = update(c, c.volumes(), volume)
		volume.Spec.ClaimRef.UID = "1"
		volume = update(c, c.volumes(), volume)
		require.Equal(c, "1", string(volume.Spec.ClaimRef.UID))
		volume.Spec.ClaimRef = nil
		require.Nil(c, update(c, c.volumes(), volume).Spec.ClaimRef)
	},
	"PhaseTransitionTime": func(c *contract) {
		volume := create(c, c.volumes(), c.newVolume("a"))
		volume.Status.LastPhaseTransitionTime = pointer(metav1.Unix(1, 0))
		volume = updateStatus(c, c.volumes(), volume)
		require.Equal(c, int64(1), volume.Status.LastPhaseTransitionTime.Unix(), "set by the client")
		volume.Status.Phase = v1.VolumeAvailable
		volume = updateStatus(c, c.volumes(), volume)
		require.Less(c, int64(1), volume.Status.LastPhaseTransitionTime.Unix(), "set with the phase")
		at := volume.Status.LastPhaseTransitionTime.Unix()
		volume.Status.LastPhaseTransitionTime, volume.Status.Message = nil, "x"
		volume = updateStatus(c, c.volumes(), volume)
		require.Equal(c, at, volume.Status.LastPhaseTransitionTime.Unix(), "kept with the phase")
	},
	"DeletedVolumeWaitsForProtection": func(c *contract) {
		volume := create(c, c.volumes(), c.newVolume("a"))
		require.NoError(c, c.volumes().Delete(c.ctx, volume.Name, metav1.DeleteOptions{}))
		volume, err := c.volumes().Get(c.ctx, volume.Name, metav1.GetOptions{})
		require.NoError(c, err)
		require.NotNil(c, volume.DeletionTimestamp)
		volume.Finalizers = nil
		update(c, c.volumes(), volume)
		_, err = c.volumes().Get(c.ctx, volume.Name, metav1.GetOptions{})
		c.refused(err, metav1.StatusReasonNotFound)
	},
}
