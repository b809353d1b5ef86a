package content_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// hostileQuantities take for ever to compute with.
func hostileQuantities() []resource.Quantity {
	return []resource.Quantity{
		resource.MustParse("1e99999999"), resource.MustParse("0e99999999"), *resource.NewScaledQuantity(1, -99999999),
	}
}

func inTime(t *testing.T, work func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		work()
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("a hostile quantity is computed")
	}
}

func TestHostileDivisor(t *testing.T) {
	n := newNode(t)
	for _, q := range hostileQuantities() {
		item := resourceItem("a", "main", "limits.cpu", "")
		item.ResourceFieldRef.Divisor = q
		inTime(t, func() {
			_, err := n.newMounter(downward(item))
			var refused *field.Error
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Field, "resourceFieldRef.divisor")
		})
	}
}

// TestLargeLimit checks that a limit is refused if its quotient by the divisor does not fit
// into an int64.
func TestLargeLimit(t *testing.T) {
	for _, test := range []struct{ limit, divisor, want string }{
		{"1e18", "", "1000000000000000000"},
		{"9223372036854775807", "1", "9223372036854775807"},
		{"9223372036854775807", "1m", ""},
		{"1e18", "1m", ""},
		{"9223372036854776", "1m", ""},
		{"9223372036854775", "1m", "9223372036854775000"},
		{"1500m", "1m", "1500"},
		{"1500m", "1", "2"},
	} {
		n := newNode(t)
		n.pod.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse(test.limit)
		source := downward(resourceItem("a", "main", "limits.cpu", test.divisor))
		if test.want != "" {
			require.Equal(t, map[string]string{"a": test.want}, n.setUpAndRead(t, source, volume.MounterArgs{}))
			continue
		}
		err := n.mounter(t, source).SetUp(t.Context(), volume.MounterArgs{})
		require.ErrorIs(t, err, quantity.ErrTooLarge)
		require.ErrorContains(t, err, "limits.cpu of container")
	}
}

func TestHostileLimit(t *testing.T) {
	for _, q := range hostileQuantities() {
		n := newNode(t)
		n.pod.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = q
		inTime(t, func() {
			err := n.mounter(t, downward(resourceItem("a", "main", "limits.cpu", "1m"))).SetUp(t.Context(), volume.MounterArgs{})
			if q.IsZero() { // zero means no limit: the node's allocatable value
				require.NoError(t, err)
				return
			}
			require.Condition(t, func() bool { return isHostileQuantity(err) }, "%v", err)
			require.ErrorContains(t, err, "limits.cpu of container")
		})
	}
}

func isHostileQuantity(err error) bool {
	return errors.Is(err, quantity.ErrTooLarge) || errors.Is(err, quantity.ErrTooFine)
}
