package util_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/util"
)

// A pair is a claim and a volume that match, until they are changed.
type pair struct {
	claim *v1.PersistentVolumeClaim
	pv    *v1.PersistentVolume
	node  *v1.Node
}

func newPair() pair {
	p := pair{
		&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "1"}},
		&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Labels: map[string]string{"tier": "fast"}}},
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"zone": "a"}}},
	}
	p.claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	p.claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	p.claim.Spec.StorageClassName = ptr("ssd")
	p.pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany}
	p.pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	p.pv.Spec.StorageClassName = "ssd"
	return p
}

func ptr[T any](v T) *T { return &v }

func claimRef(name, uid string) *v1.ObjectReference {
	return &v1.ObjectReference{Namespace: "ns", Name: name, UID: types.UID(uid)}
}

func TestMatchVolume(t *testing.T) {
	block, fs := v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem
	fast := &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "fast"}}
	slow := &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "slow"}}
	inZone := func(zone string) *v1.VolumeNodeAffinity {
		return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}}
	}
	now := metav1.Now()
	for name, test := range map[string]struct {
		change   func(p *pair)
		mismatch string // in the error; empty: no error
	}{
		"as they are":           {func(*pair) {}, ""},
		"named by the claim":    {func(p *pair) { p.claim.Spec.VolumeName = "pv" }, ""},
		"another is named":      {func(p *pair) { p.claim.Spec.VolumeName = "other" }, "metadata.name"},
		"reserved":              {func(p *pair) { p.pv.Spec.ClaimRef = claimRef("claim", "") }, ""},
		"bound":                 {func(p *pair) { p.pv.Spec.ClaimRef = claimRef("claim", "1") }, ""},
		"reserved for another":  {func(p *pair) { p.pv.Spec.ClaimRef = claimRef("other", "") }, "spec.claimRef"},
		"released":              {func(p *pair) { p.pv.Spec.ClaimRef = claimRef("claim", "0") }, "spec.claimRef"},
		"reserved elsewhere":    {func(p *pair) { p.claim.Namespace, p.pv.Spec.ClaimRef = "other", claimRef("claim", "") }, "spec.claimRef"},
		"no access mode":        {func(p *pair) { p.claim.Spec.AccessModes = nil }, ""},
		"both access modes":     {func(p *pair) { p.claim.Spec.AccessModes = p.pv.Spec.AccessModes }, ""},
		"another access mode":   {func(p *pair) { p.claim.Spec.AccessModes[0] = v1.ReadWriteMany }, "spec.accessModes"},
		"one pod, not one node": {func(p *pair) { p.claim.Spec.AccessModes[0] = v1.ReadWriteOncePod }, "spec.accessModes"},
		"larger":                {func(p *pair) { p.pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse("2G") }, ""},
		"smaller":               {func(p *pair) { p.pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse("1G") }, "spec.capacity.storage"},
		"no capacity":           {func(p *pair) { p.pv.Spec.Capacity = nil }, "spec.capacity.storage"},
		"no request":            {func(p *pair) { p.pv.Spec.Capacity, p.claim.Spec.Resources.Requests = nil, nil }, ""},
		"another class":         {func(p *pair) { p.pv.Spec.StorageClassName = "hdd" }, "spec.storageClassName"},
		"no class":              {func(p *pair) { p.claim.Spec.StorageClassName = nil }, "spec.storageClassName"},
		"neither has a class":   {func(p *pair) { p.claim.Spec.StorageClassName, p.pv.Spec.StorageClassName = nil, "" }, ""},
		"class by annotation":   {func(p *pair) { p.pv.Annotations = map[string]string{v1.BetaStorageClassAnnotation: "hdd"} }, "spec.storageClassName"},
		"claim's by annotation": {func(p *pair) { p.claim.Annotations = map[string]string{v1.BetaStorageClassAnnotation: ""} }, "spec.storageClassName"},
		"attributes class":      {func(p *pair) { p.claim.Spec.VolumeAttributesClassName = ptr("gold") }, "spec.volumeAttributesClassName"},
		"same attributes class": {func(p *pair) {
			p.claim.Spec.VolumeAttributesClassName, p.pv.Spec.VolumeAttributesClassName = ptr("gold"), ptr("gold")
		}, ""},
		"empty attributes class":   {func(p *pair) { p.pv.Spec.VolumeAttributesClassName = ptr("") }, ""},
		"the default mode":         {func(p *pair) { p.claim.Spec.VolumeMode = &fs }, ""},
		"both block":               {func(p *pair) { p.claim.Spec.VolumeMode, p.pv.Spec.VolumeMode = &block, &block }, ""},
		"block claim":              {func(p *pair) { p.claim.Spec.VolumeMode = &block }, "spec.volumeMode"},
		"block volume":             {func(p *pair) { p.pv.Spec.VolumeMode = &block }, "spec.volumeMode"},
		"selected":                 {func(p *pair) { p.claim.Spec.Selector = fast }, ""},
		"not selected":             {func(p *pair) { p.claim.Spec.Selector = slow }, "metadata.labels"},
		"not selected, but named":  {func(p *pair) { p.claim.Spec.Selector, p.claim.Spec.VolumeName = slow, "pv" }, ""},
		"not selected, reserved":   {func(p *pair) { p.claim.Spec.Selector, p.pv.Spec.ClaimRef = slow, claimRef("claim", "") }, ""},
		"being deleted":            {func(p *pair) { p.pv.DeletionTimestamp = &now }, "metadata.deletionTimestamp"},
		"deleted while it's bound": {func(p *pair) { p.pv.DeletionTimestamp, p.pv.Spec.ClaimRef = &now, claimRef("claim", "1") }, ""},
		"for the node":             {func(p *pair) { p.pv.Spec.NodeAffinity = inZone("a") }, ""},
		"for another node":         {func(p *pair) { p.pv.Spec.NodeAffinity = inZone("b") }, "spec.nodeAffinity"},
		"for no node yet":          {func(p *pair) { p.pv.Spec.NodeAffinity, p.node = inZone("b"), nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair()
			test.change(&p)
			claim, pv := p.claim.DeepCopy(), p.pv.DeepCopy()
			err := util.MatchVolume(p.claim, p.pv, p.node)
			require.Equal(t, claim, p.claim, "arguments are read only")
			require.Equal(t, pv, p.pv)
			if test.mismatch == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, util.ErrMismatch)
			require.ErrorContains(t, err, `/claim: persistent volume "pv": `+test.mismatch+": ")
		})
	}
}

// TestMatchMalformed: the error names malformed fields, and is no mismatch.
func TestMatchMalformed(t *testing.T) {
	for of, change := range map[string]func(p *pair){
		"claim":            func(p *pair) { p.claim = nil },
		"persistentVolume": func(p *pair) { p.pv = nil },
		"claim.spec.selector": func(p *pair) {
			p.claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{strings.Repeat("a b", 1<<18): ""}}
		},
		"claim.spec.resources.requests.storage": func(p *pair) {
			p.claim.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("1e99999999")
		},
		"persistentVolume.spec.capacity.storage": func(p *pair) {
			p.pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse("1e99999999")
		},
		"persistentVolume.spec.nodeAffinity.required.nodeSelectorTerms[0].matchFields[0]": func(p *pair) {
			p.pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchFields: []v1.NodeSelectorRequirement{{Key: "spec"}},
			}}}}
		},
	} {
		p := newPair()
		change(&p)
		var refused *field.Error
		err := util.MatchVolume(p.claim, p.pv, p.node)
		require.ErrorAs(t, err, &refused, of)
		require.Equal(t, of, refused.Field)
		require.NotErrorIs(t, err, util.ErrMismatch)
		require.Less(t, len(err.Error()), 1024)
	}
}

// TestMismatchIsShort: the error is short for any names and labels.
func TestMismatchIsShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, change := range []func(p *pair){
		func(p *pair) { p.claim.Spec.VolumeName = long },
		func(p *pair) {
			p.pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: long, Name: long, UID: types.UID(long)}
		},
		func(p *pair) { p.claim.Spec.AccessModes[0] = v1.PersistentVolumeAccessMode(long) },
		func(p *pair) { p.pv.Spec.StorageClassName = long },
		func(p *pair) { p.pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{}} },
	} {
		p := newPair()
		p.node.Name, p.node.Labels[long] = long, long
		change(&p)
		p.pv.Name += long
		err := util.MatchVolume(p.claim, p.pv, p.node)
		require.ErrorIs(t, err, util.ErrMismatch)
		require.Less(t, len(err.Error()), 2048)
	}
}
