package util_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/util"
)

func TestUniqueName(t *testing.T) {
	for _, volumeName := range []string{"pv", "a/b", "/", "server:/export//x", "x^y"} {
		name := util.GetUniqueVolumeName("kubernetes.io/nfs", volumeName)
		require.Equal(t, v1.UniqueVolumeName("kubernetes.io/nfs/"+volumeName), name)
		plugin, got, err := util.SplitUniqueName(name)
		require.NoError(t, err)
		require.Equal(t, "kubernetes.io/nfs", plugin)
		require.Equal(t, volumeName, got)
	}
	name := util.GetUniqueVolumeNameWithPod("uid-1", "kubernetes.io/secret", "token")
	require.Equal(t, v1.UniqueVolumeName("kubernetes.io/secret/uid-1-token"), name)
}

func TestSplitNoUniqueName(t *testing.T) {
	for _, bad := range []v1.UniqueVolumeName{
		"", "/", "//", "///", "a", "a/b", "a/b/", "/b/c", "a//c", "./b/c", "a/../c", "a~b/c/d", "a\x00/b/c",
		v1.UniqueVolumeName(strings.Repeat("a", 1<<20) + "/b/c"),
	} {
		_, _, err := util.SplitUniqueName(bad)
		var refused *field.Error
		require.ErrorAs(t, err, &refused, "%.20q", bad)
		require.Equal(t, "uniqueVolumeName", refused.Field)
		require.Less(t, len(err.Error()), 1024)
	}
}
