package provision

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUsesVolume: which pods with the name of a claim may use the released volume of an earlier claim of the name.
func TestUsesVolume(t *testing.T) {
	at := func(second int) metav1.Time { return metav1.NewTime(time.Unix(int64(second), 0)) }
	plain := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "web-data"}}
	ephemeral := v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}
	for name, test := range map[string]struct {
		source     v1.VolumeSource
		pod, claim int // when they were created; claim 0: there is none
		owner      string
		isStatic   bool
		uses       bool
	}{ // the volume was created at 10
		"no claim":                          {plain, 20, 0, "", false, true},
		"a pod of the earlier claim":        {plain, 5, 20, "", false, true},
		"a pod of the same second":          {plain, 20, 20, "", false, true},
		"a pod of the present claim":        {plain, 21, 20, "", false, false},
		"ephemeral, no claim":               {ephemeral, 20, 0, "", false, true},
		"ephemeral, a replaced pod":         {ephemeral, 20, 21, "pod", false, false},
		"ephemeral, another pod's claim":    {ephemeral, 20, 21, "other", false, true},
		"ephemeral, nobody's claim":         {ephemeral, 20, 21, "", false, true},
		"ephemeral, the pod of both claims": {ephemeral, 5, 21, "pod", false, true},
		"ephemeral, as old as the volume":   {ephemeral, 10, 21, "pod", false, true},
		"ephemeral, a static volume":        {ephemeral, 20, 21, "pod", true, true},
		"plain, of a claim with an owner":   {plain, 20, 21, "pod", false, true},
		"another claim":                     {v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "other"}}, 5, 0, "", false, false},
		"no volume with a claim":            {v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, 5, 0, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "pod", CreationTimestamp: at(test.pod)}}
			pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: test.source}}
			pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(10), Annotations: map[string]string{ProvisionedByAnnotation: "p"}}}
			if test.isStatic {
				pv.Annotations = nil
			}
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "web-data", UID: "earlier"}
			var claim *v1.PersistentVolumeClaim
			if test.claim > 0 {
				claim = &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(test.claim)}}
			}
			if test.owner != "" {
				isController := true
				claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: pod.UID, Controller: &isController}}
				if test.owner == "other" {
					claim.OwnerReferences[0].UID = "other"
				}
			}
			require.Equal(t, test.uses, usesVolume(pod, pv, claim))
		})
	}
}
