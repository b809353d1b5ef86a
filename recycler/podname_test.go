package recycler

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestPodName(t *testing.T) {
	for _, pv := range []string{
		"", "pv", "pv-1", "a.b.c", "..", "-", "PV", "ü/../x", "\x00", strings.Repeat("a", 300), strings.Repeat("-", 300),
		strings.Repeat("a", 33) + "-b",
	} {
		name := podName(pv)
		require.Empty(t, validation.IsDNS1123Label(name), "%q: %q", pv, name)
		require.NotEqual(t, name, podName(pv))
	}
	require.Regexp(t, "^recycler-for-a-b-c-[0-9a-f]{16}$", podName("a.b.c"))
}

// Nothing of a pod is the template's, or another pod's.
func TestNewPodSharesNothing(t *testing.T) {
	template := NewPersistentVolumeRecyclerPodTemplate()
	template.Spec.RestartPolicy = ""
	template.Labels = map[string]string{"app": "x"}
	template.UID, template.ResourceVersion = "x", "1"
	p, err := NewPod(PodConfig{Client: struct{ PodClient }{}, Template: template, MinimumTimeout: time.Second + 1})
	require.NoError(t, err)
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "u"}}
	source := v1.VolumeSource{NFS: &v1.NFSVolumeSource{Path: "/a"}}
	one, err := p.newPod(pv, source)
	require.NoError(t, err)
	template.Spec.Containers[0].Command[0] = "changed"
	one.Spec.Containers[0].Args[0] = "changed"
	one.Spec.Volumes[0].NFS.Path = "changed"
	one.Labels["app"] = "changed"
	two, err := p.newPod(pv, source)
	require.NoError(t, err)
	require.Equal(t, []string{"/bin/sh"}, two.Spec.Containers[0].Command)
	require.Equal(t, "-c", two.Spec.Containers[0].Args[0])
	require.Equal(t, "/a", two.Spec.Volumes[0].NFS.Path)
	require.Equal(t, map[string]string{"app": "x", OwnerLabel: "volumekit", VolumeUIDLabel: "u"}, two.Labels)
	require.Equal(t, v1.RestartPolicyNever, two.Spec.RestartPolicy)
	require.EqualValues(t, 2, *two.Spec.ActiveDeadlineSeconds)
	require.Empty(t, two.UID)
	require.Empty(t, two.ResourceVersion)
	require.Empty(t, two.GenerateName)
}

func TestDeadlineIsValid(t *testing.T) {
	p, err := NewPod(PodConfig{Client: struct{ PodClient }{}, TimeoutIncrement: math.MaxInt64})
	require.NoError(t, err)
	pv := &v1.PersistentVolume{}
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("8Ei")}
	require.EqualValues(t, math.MaxInt32, p.activeDeadline(pv))
	p.config.MinimumTimeout, p.config.TimeoutIncrement = 1, 1
	require.EqualValues(t, 1, p.activeDeadline(&v1.PersistentVolume{}))
}
