package recycler

import (
	"errors"
	"math"

	"github.com/volumekit/volumekit/util/quantity"
	v1 "k8s.io/api/core/v1"
)

const gibibyte = 1 << 30

// CalculateTimeoutForVolume returns the time limit of a volume's scrub in seconds:
// timeoutIncrement for each whole GiB of its capacity, but at least minimumTimeout, and
// at most the maximum of int64.
func CalculateTimeoutForVolume(minimumTimeout, timeoutIncrement int, pv *v1.PersistentVolume) int64 {
	return max(int64(minimumTimeout), multiply(wholeGiB(pv), int64(timeoutIncrement)))
}

func wholeGiB(pv *v1.PersistentVolume) int64 {
	if pv == nil {
		return 0
	}
	capacity := pv.Spec.Capacity[v1.ResourceStorage]
	n, err := quantity.Bytes(&capacity)
	if errors.Is(err, quantity.ErrTooLarge) && capacity.Sign() > 0 {
		n = math.MaxInt64
	}
	return max(0, n) / gibibyte
}

// multiply returns the product of two non-negative numbers, or the maximum of int64.
func multiply(a, b int64) int64 {
	a, b = max(0, a), max(0, b)
	if b != 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}
