package protect

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var deletedAt = metav1.Unix(1000, 0)

// TestDecide: the step for each state of an object and each usage.
func TestDecide(t *testing.T) {
	all := []usage{usageUnread, usedInCache, usedOutside, unused}
	none := []step{stepNone, stepNone, stepNone, stepNone}
	for _, test := range []struct {
		isProtected, isDeleted bool
		want                   []step // by usage
	}{
		{false, false, []step{stepProtect, stepProtect, stepProtect, stepProtect}},
		{true, false, none},
		{false, true, none},
		{true, true, []step{stepRead, stepNone, stepRecheck, stepRelease}},
	} {
		claim := &v1.PersistentVolumeClaim{}
		claim.Finalizers = []string{"other", VolumeFinalizer}
		if test.isProtected {
			claim.Finalizers = append(claim.Finalizers, ClaimFinalizer)
		}
		if test.isDeleted {
			claim.DeletionTimestamp = &deletedAt
		}
		for i, u := range all {
			require.Equal(t, test.want[i], decide(claim, ClaimFinalizer, u), "%v %v %v", test.isProtected, test.isDeleted, u)
		}
	}
}

// TestDecideCondition: the status for each state of a claim and each usage.
func TestDecideCondition(t *testing.T) {
	const yes, no, none = v1.ConditionTrue, v1.ConditionFalse, v1.ConditionStatus("")
	type result struct {
		status v1.ConditionStatus
		read   bool
	}
	all := []usage{usageUnread, usedInCache, usedOutside, unused}
	for current, want := range map[v1.ConditionStatus][]result{
		none: {{none, true}, {no, false}, {no, false}, {yes, false}},
		yes:  {{none, false}, {no, false}, {no, false}, {none, false}},
		no:   {{none, true}, {none, false}, {none, false}, {yes, false}},
	} {
		claim := &v1.PersistentVolumeClaim{}
		claim.Status.Phase = v1.ClaimBound
		if current != none {
			claim.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: "Other"}, {Type: UnusedCondition, Status: current}}
		}
		for i, u := range all {
			status, read := decideCondition(claim, u)
			require.Equal(t, want[i], result{status, read}, "%q %v", current, u)
		}
		for _, u := range all {
			deleted, pending := claim.DeepCopy(), claim.DeepCopy()
			deleted.DeletionTimestamp = &deletedAt
			pending.Status.Phase = v1.ClaimPending
			for _, c := range []*v1.PersistentVolumeClaim{deleted, pending} {
				status, read := decideCondition(c, u)
				require.Equal(t, result{none, false}, result{status, read})
			}
		}
	}
}

// podOf returns a pod with a node and one volume.
func podOf(source v1.VolumeSource, changes ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "1"}}
	pod.Spec.NodeName = "node"
	pod.Spec.Volumes = []v1.Volume{{Name: "scratch"}, {Name: "data", VolumeSource: source}}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func named(name string) v1.VolumeSource {
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func inline() v1.VolumeSource {
	return v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}}
}

func unscheduled(pod *v1.Pod) { pod.Spec.NodeName = "" }
func succeeded(pod *v1.Pod)   { pod.Status.Phase = v1.PodSucceeded }
func failed(pod *v1.Pod)      { pod.Status.Phase = v1.PodFailed }
func ending(seconds int64) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &deletedAt, &seconds
	}
}
func running(pod *v1.Pod) {
	pod.Status.ContainerStatuses = []v1.ContainerStatus{
		{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}}, {State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
	}
}
func terminated(pod *v1.Pod) {
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}}
}

// TestPodRules: which pods keep a claim in deletion, and which pods need a claim.
func TestPodRules(t *testing.T) {
	claim := func(name, owner string) *v1.PersistentVolumeClaim {
		c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		if owner != "" {
			c = newClaim(podOf(inline()), &v1.Volume{Name: "data", VolumeSource: inline()})
			c.Name, c.OwnerReferences[0].UID = name, "1"
			if owner == "other" {
				c.OwnerReferences[0].UID = "2"
			}
			if owner == "no controller" {
				c.OwnerReferences[0].Controller = nil
			}
		}
		return c
	}
	plain, owned := claim("c", ""), claim("pod-data", "pod")
	for name, test := range map[string]struct {
		pod          *v1.Pod
		claim        *v1.PersistentVolumeClaim
		keeps, needs bool
	}{
		"named":                            {podOf(named("c")), plain, true, true},
		"another name":                     {podOf(named("d")), plain, false, false},
		"no claim":                         {podOf(v1.VolumeSource{}), plain, false, false},
		"named, without a node":            {podOf(named("c"), unscheduled), plain, false, true},
		"named, succeeded":                 {podOf(named("c"), succeeded), plain, true, false},
		"named, failed":                    {podOf(named("c"), failed), plain, true, false},
		"named, in deletion":               {podOf(named("c"), ending(30), running), plain, true, true},
		"named, shut down":                 {podOf(named("c"), ending(0), terminated), plain, true, false},
		"named, deleted by force":          {podOf(named("c"), ending(0), running), plain, true, true},
		"ephemeral":                        {podOf(inline()), owned, true, true},
		"ephemeral, of another pod":        {podOf(inline()), claim("pod-data", "other"), false, false},
		"ephemeral, no controller":         {podOf(inline()), claim("pod-data", "no controller"), false, false},
		"ephemeral, no owner":              {podOf(inline()), claim("pod-data", ""), false, false},
		"ephemeral, another name":          {podOf(inline()), claim("pod-other", "pod"), false, false},
		"ephemeral, without a node":        {podOf(inline(), unscheduled), owned, false, true},
		"ephemeral, succeeded":             {podOf(inline(), succeeded), owned, true, false},
		"ephemeral, in deletion":           {podOf(inline(), ending(30), running), owned, true, true},
		"ephemeral, in deletion, finished": {podOf(inline(), ending(30), terminated), owned, true, false},
		"ephemeral, shut down":             {podOf(inline(), ending(0), terminated), owned, false, false},
		"ephemeral, deleted by force":      {podOf(inline(), ending(0), running), owned, false, true},
		"the name of an ephemeral claim":   {podOf(named("pod-data")), owned, true, true},
	} {
		require.Equal(t, test.keeps, keepsClaim(test.pod, test.claim), "%s: keeps", name)
		require.Equal(t, test.needs, needsClaim(test.pod, test.claim), "%s: needs", name)
	}
}

// TestKeepsVolume: which claims keep a volume, by phases of the volume.
func TestKeepsVolume(t *testing.T) {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	claim := func(uid, volume string) *v1.PersistentVolumeClaim {
		c := &v1.PersistentVolumeClaim{}
		c.UID, c.Spec.VolumeName = "1", volume
		if uid != "1" {
			c.UID = "2"
		}
		return c
	}
	require.False(t, keepsVolume(claim("1", "pv"), pv), "no reference")
	_, ok := claimKeyOf(pv)
	require.False(t, ok)
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "c"}
	_, ok = claimKeyOf(pv)
	require.False(t, ok, "reserved by name")
	pv.Spec.ClaimRef.UID = "1"
	key, ok := claimKeyOf(pv)
	require.True(t, ok)
	require.Equal(t, "ns/c", key.String())
	require.False(t, keepsVolume(nil, pv))
	require.True(t, keepsVolume(claim("1", "pv"), pv))
	require.True(t, keepsVolume(claim("1", ""), pv), "between the writes of the binder")
	require.False(t, keepsVolume(claim("1", "other"), pv))
	require.False(t, keepsVolume(claim("2", "pv"), pv))
	for phase, want := range map[v1.PersistentVolumePhase]bool{
		v1.VolumeReleased: true, v1.VolumeFailed: true, v1.VolumePending: false, v1.VolumeAvailable: false, v1.VolumeBound: false, "": false,
	} {
		pv.Status.Phase = phase
		require.Equal(t, want, isReleased(pv), phase)
	}
}

// TestNewClaim: the claim of an ephemeral volume, and the claims that are used instead.
func TestNewClaim(t *testing.T) {
	pod := podOf(inline())
	template := pod.Spec.Volumes[1].Ephemeral.VolumeClaimTemplate
	template.Labels, template.Annotations = map[string]string{"l": "1"}, map[string]string{"a": "2"}
	template.Finalizers, template.Name = []string{"ignored"}, "ignored"
	template.Spec.VolumeName = "pv"
	isTrue := true
	want := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "pod-data", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: "1", Controller: &isTrue, BlockOwnerDeletion: &isTrue}},
		},
		Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv"},
	}
	made := newClaim(pod, &pod.Spec.Volumes[1])
	require.Equal(t, want, made)
	made.Labels["l"] = "changed"
	require.Equal(t, "1", template.Labels["l"], "the pod in the cache is shared")
	pod.Spec.Volumes[1].Ephemeral.VolumeClaimTemplate = nil
	require.Empty(t, newClaim(pod, &pod.Spec.Volumes[1]).Spec, "the API server refuses it")

	missing, err := needsNewClaim(pod, nil)
	require.True(t, missing)
	require.NoError(t, err)
	missing, err = needsNewClaim(pod, want)
	require.False(t, missing)
	require.NoError(t, err)
	want.OwnerReferences[0].UID = "2"
	missing, err = needsNewClaim(pod, want)
	require.False(t, missing)
	require.EqualError(t, err, "claim ns/pod-data was not created for pod ns/pod: the pod is not the owner")
	require.ErrorAs(t, err, new(*NotOwnerError))
}
