package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestOwner: the level selects the pod, its controller, or that of its ReplicaSet.
func TestOwner(t *testing.T) {
	controlledBy := func(kind, name string) metav1.ObjectMeta {
		yes := true
		return metav1.ObjectMeta{
			Namespace: "system", Name: "this", UID: "this-uid",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "owner-uid", Controller: &yes, BlockOwnerDeletion: &yes}},
		}
	}
	alone := metav1.ObjectMeta{Namespace: "system", Name: "this", UID: "this-uid"}
	for name, test := range map[string]struct {
		level    int
		pod, set metav1.ObjectMeta
		want     string // "": none
		err      string
	}{
		"none":                     {level: -1, pod: alone},
		"pod":                      {level: 0, pod: alone, want: "v1 Pod this this-uid"},
		"controller":               {level: 1, pod: controlledBy("StatefulSet", "driver"), want: "apps/v1 StatefulSet driver owner-uid"},
		"no controller":            {level: 1, pod: alone, err: "pod this has no controller"},
		"deployment":               {level: 2, pod: controlledBy("ReplicaSet", "this"), set: controlledBy("Deployment", "driver"), want: "apps/v1 Deployment driver owner-uid"},
		"ReplicaSet alone":         {level: 2, pod: controlledBy("ReplicaSet", "this"), set: alone, err: "ReplicaSet this has no controller"},
		"no ReplicaSet":            {level: 2, pod: controlledBy("ReplicaSet", "other"), set: alone, err: "not found"},
		"StatefulSet at level two": {level: 2, pod: controlledBy("StatefulSet", "driver"), err: "is StatefulSet driver, and must be a ReplicaSet"},
	} {
		t.Run(name, func(t *testing.T) {
			clientset := fake.NewClientset(&v1.Pod{ObjectMeta: test.pod}, &appsv1.ReplicaSet{ObjectMeta: test.set})
			p := &program{options: options{ownerLevel: test.level, pod: podName{"system", "this"}}}
			owner, err := p.owner(t.Context(), clientset)
			if test.err != "" {
				require.ErrorContains(t, err, "--capacity-ownerref-level: ")
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			if test.want == "" {
				require.Nil(t, owner)
				return
			}
			require.Equal(t, test.want, owner.APIVersion+" "+owner.Kind+" "+owner.Name+" "+string(owner.UID))
			require.Nil(t, owner.Controller)
			require.Nil(t, owner.BlockOwnerDeletion)
		})
	}
}
