package volume

import (
	"context"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A MetricsProvider says how full a volume is.
type MetricsProvider interface {
	// GetMetrics measures the volume. It changes nothing and may be called at any time. If the
	// volume is not up the error wraps [ErrNotMounted]; if its kind cannot be measured,
	// [ErrNotSupported]. The query of the volume's file system may hang if a server is dead:
	// GetMetrics returns soon after ctx ends, with an error that wraps ctx's.
	GetMetrics(ctx context.Context) (*Metrics, error)
}

// Metrics is a measurement of one volume. Nil quantities were not measured: not every kind of
// volume has all of them.
type Metrics struct {
	Time metav1.Time // of the measurement

	Capacity  *resource.Quantity // bytes that the file system or device holds
	Used      *resource.Quantity // bytes in use; of a shared file system, by this volume if that is known
	Available *resource.Quantity // bytes that may still be written

	Inodes     *resource.Quantity // files that the file system holds
	InodesFree *resource.Quantity // files that may still be created
	InodesUsed *resource.Quantity // files in use

	// Abnormal reports a fault of the volume, which Message describes. Nil: the volume's
	// health was not checked.
	Abnormal *bool
	Message  *string
}
