package util

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

func TestJoinMountOptions(t *testing.T) {
	for name, test := range map[string]struct{ user, system, want []string }{
		"none":        {nil, nil, nil},
		"user":        {[]string{"b", "a"}, nil, []string{"a", "b"}},
		"system":      {nil, []string{"a"}, []string{"a"}},
		"both":        {[]string{"hard", "ro"}, []string{"ro", "bg"}, []string{"bg", "hard", "ro"}},
		"not decided": {[]string{"rw"}, []string{"ro"}, []string{"ro", "rw"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, JoinMountOptions(test.user, test.system))
		})
	}
}

func TestJoinMountOptionsLeavesItsArguments(t *testing.T) {
	user, system := []string{"b", "a", "a"}, []string{"d", "c"}
	JoinMountOptions(user, system)
	require.Equal(t, []string{"b", "a", "a"}, user)
	require.Equal(t, []string{"d", "c"}, system)
}

func TestMountOptionFromSpec(t *testing.T) {
	pv := &v1.PersistentVolume{}
	pv.Spec.MountOptions = []string{"hard", "ro"}
	pv.Annotations = map[string]string{v1.MountOptionAnnotation: "nfsvers=4.1, hard"}
	spec := volume.NewSpecFromPersistentVolume(pv, false)
	require.Equal(t, []string{"bg", "hard", "nfsvers=4.1", "ro"}, MountOptionFromSpec(spec, "bg"))
	require.Equal(t, []string{"bg"}, MountOptionFromSpec(volume.NewSpecFromVolume(&v1.Volume{}), "bg"))
	require.Empty(t, MountOptionFromSpec(nil))
}

func TestQualifiedNames(t *testing.T) {
	escaped, err := EscapeQualifiedName("kubernetes.io/nfs")
	require.NoError(t, err)
	require.Equal(t, "kubernetes.io~nfs", escaped)
	name, err := UnescapeQualifiedName(escaped)
	require.NoError(t, err)
	require.Equal(t, "kubernetes.io/nfs", name)
}
