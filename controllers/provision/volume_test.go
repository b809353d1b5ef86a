package provision

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecideVolume(t *testing.T) {
	bound := func(v *volumeView) { v.volume.Status.Phase = v1.VolumeBound }
	retained := func(v *volumeView) { v.volume.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain }
	recycled := func(v *volumeView) { v.volume.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRecycle }
	withGuard := func(v *volumeView) { v.volume.Finalizers = []string{VolumeFinalizer} }
	isDeleted := func(v *volumeView) { v.volume.DeletionTimestamp = &deletedAt }
	static := func(v *volumeView) {
		v.volume.Annotations, v.volume.Spec.CSI = nil, &v1.CSIPersistentVolumeSource{Driver: "example.com/p"}
	}
	free := func(v *volumeView) { v.volume.Status.Phase, v.volume.Spec.ClaimRef.UID = v1.VolumeAvailable, "" }
	withoutGuards := func(v *volumeView) { v.rules.guardsVolumes = false }
	withoutStorage := func(v *volumeView) { v.attempt.isDeleted = true }
	pause := func(v *volumeView) {
		v.attempt.retry = retry{failures: 1, until: now.Add(time.Minute), inputs: v.inputs()}
	}
	type changes = []func(*volumeView)
	tests := map[string]struct {
		changes changes
		want    volumeStep
	}{
		"released":                                   {nil, volumeReclaim},
		"released, guarded":                          {changes{withGuard}, volumeReclaim},
		"released, guarded, deleted":                 {changes{withGuard, isDeleted}, volumeReclaim},
		"released, deleted":                          {changes{isDeleted}, volumeForget},
		"released, without guards":                   {changes{withoutGuards}, volumeReclaim},
		"released, guarded, deleted, without guards": {changes{withGuard, isDeleted, withoutGuards}, volumeReclaim},
		"released, the claim lives":                  {changes{func(v *volumeView) { v.claimLives = true }}, volumeForget},
		"released, not permitted":                    {changes{func(v *volumeView) { v.permitted = false }}, volumeForget},
		"released, without a reference":              {changes{func(v *volumeView) { v.volume.Spec.ClaimRef = nil }}, volumeForget},
		"released, reserved":                         {changes{func(v *volumeView) { v.volume.Spec.ClaimRef.UID = "" }}, volumeForget},
		"released, of another":                       {changes{func(v *volumeView) { v.volume.Annotations = nil }}, volumeForget},
		"released, paused":                           {changes{pause}, volumeWait},
		"released, retained":                         {changes{retained}, volumeForget},
		"released, retained, guarded":                {changes{retained, withGuard}, volumeRelease},
		"released, recycled, guarded":                {changes{recycled, withGuard}, volumeRelease},
		"the storage is deleted":                     {changes{withoutStorage, withGuard}, volumeRemove},
		"the storage is deleted, retained":           {changes{withoutStorage, withGuard, retained}, volumeRemove},
		"the storage and the object are deleted":     {changes{withoutStorage, withGuard, isDeleted}, volumeRemove},
		"the storage is deleted, not guarded":        {changes{withoutStorage}, volumeRemove},
		"all is deleted":                             {changes{withoutStorage, isDeleted}, volumeForget},
		"bound":                                      {changes{bound}, volumeGuard},
		"bound, guarded":                             {changes{bound, withGuard}, volumeForget},
		"bound, deleted":                             {changes{bound, isDeleted}, volumeForget},
		"bound, guarded, deleted":                    {changes{bound, withGuard, isDeleted}, volumeForget},
		"bound, guarded, retained":                   {changes{bound, withGuard, retained}, volumeRelease},
		"bound, retained":                            {changes{bound, retained}, volumeForget},
		"bound, without guards":                      {changes{bound, withoutGuards}, volumeForget},
		"bound, guarded, without guards":             {changes{bound, withGuard, withoutGuards}, volumeRelease},
		"bound, guarded, deleted, without guards":    {changes{bound, withGuard, isDeleted, withoutGuards}, volumeForget},
		"free, static, guarded, deleted":             {changes{static, free, withGuard, isDeleted}, volumeRelease},
		"free, static, guarded":                      {changes{static, free, withGuard}, volumeForget},
		"free, provisioned, guarded, deleted":        {changes{free, withGuard, isDeleted}, volumeForget},
		"available, static, guarded, deleted": {changes{static, withGuard, isDeleted, func(v *volumeView) {
			v.volume.Status.Phase = v1.VolumeAvailable
		}}, volumeForget},
		"gone": {changes{func(v *volumeView) { v.volume = nil }}, volumeForget},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := volumeView{rules: testRules, permitted: true, volume: &v1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{UID: "1", Annotations: map[string]string{ProvisionedByAnnotation: "example.com/p"}},
				Spec:       v1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete, ClaimRef: &v1.ObjectReference{UID: "2"}},
				Status:     v1.PersistentVolumeStatus{Phase: v1.VolumeReleased},
			}}
			for _, change := range test.changes {
				change(&v)
			}
			step, _ := decideVolume(v, now)
			require.Equal(t, test.want, step)
		})
	}
}
