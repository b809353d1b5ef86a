package recycler_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/recycler"
)

func TestCalculateTimeoutForVolume(t *testing.T) {
	for _, test := range []struct {
		minimum, increment int
		capacity           string
		want               int64
	}{
		{50, 30, "500M", 50},
		{50, 30, "1Gi", 50},
		{50, 30, "2Gi", 60},
		{50, 30, "2.9Gi", 60},
		{50, 30, "150Gi", 4500},
		{50, 0, "150Gi", 50},
		{0, 0, "1Gi", 0},
		{50, -30, "150Gi", 50},
		{50, 30, "-150Gi", 50},
		{50, 1, "8Ei", 8<<30 - 1},
		{50, math.MaxInt32, "7Ei", math.MaxInt64},
		{50, math.MaxInt32, "1e30", math.MaxInt64},
		{50, math.MaxInt32, "1e99999999", math.MaxInt64},
		{50, math.MaxInt32, "-1e99999999", 50},
		{50, math.MaxInt32, "0e99999999", 50},
	} {
		pv := &v1.PersistentVolume{}
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(test.capacity)}
		require.Equal(t, test.want, recycler.CalculateTimeoutForVolume(test.minimum, test.increment, pv), "%+v", test)
	}
	require.EqualValues(t, 50, recycler.CalculateTimeoutForVolume(50, 30, nil))
	require.EqualValues(t, 50, recycler.CalculateTimeoutForVolume(50, 30, &v1.PersistentVolume{}))
}

func TestCalculateTimeoutOfSum(t *testing.T) {
	huge := resource.MustParse("8Ei")
	for range 10 {
		huge.Add(huge)
	}
	pv := &v1.PersistentVolume{}
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: huge}
	require.EqualValues(t, 8<<30-1, recycler.CalculateTimeoutForVolume(1, 1, pv))
}
