package emptydir

import (
	"github.com/volumekit/volumekit/util/quantity"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Sizes are in bytes; 0 is none: file systems take it for no limit.

// limitOf returns the limit that a volume's specification has.
func limitOf(written *resource.Quantity) (int64, error) {
	return bytesOf(field.NewPath("spec", "volume", "emptyDir", "sizeLimit"), written)
}

func bytesOf(at *field.Path, q *resource.Quantity) (int64, error) {
	switch {
	case q == nil:
		return 0, nil
	case q.Sign() < 0:
		return 0, field.Invalid(at, quantity.Text(q), "a size is not negative")
	}
	n, err := quantity.Bytes(q)
	if err != nil {
		return 0, field.Invalid(at, quantity.Text(q), err.Error())
	}
	return n, nil
}

// smallest returns the smallest of the limits that there are.
func smallest(limits ...int64) int64 {
	var least int64
	for _, n := range limits {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}
