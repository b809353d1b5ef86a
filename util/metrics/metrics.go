package metrics

import (
	"context"
	"time"

	"github.com/volumekit/volumekit/util/fsusage"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Metrics is a measurement of one volume. A mounted volume has all quantities: those
// that its file system does not report are 0, such as the inodes of btrfs or CIFS. A block
// device has a capacity, and the other quantities are nil.
type Metrics struct {
	Time time.Time // of the measurement

	Capacity  *resource.Quantity // bytes that the file system or device holds
	Used      *resource.Quantity // bytes in use
	Available *resource.Quantity // bytes that may still be written

	Inodes     *resource.Quantity // files that the file system holds
	InodesFree *resource.Quantity // files that may still be created
	InodesUsed *resource.Quantity // files in use
}

// A Provider measures a volume. It is safe for concurrent use.
type Provider interface {
	// GetMetrics measures the volume. If the volume does not exist the error wraps
	// fs.ErrNotExist. It returns soon after ctx ends, with an error that wraps ctx's
	// cause.
	GetMetrics(ctx context.Context) (*Metrics, error)
}

type providerFunc func(ctx context.Context) (*Metrics, error)

func (f providerFunc) GetMetrics(ctx context.Context) (*Metrics, error) { return f(ctx) }

// NewMetricsStatFS measures the file system at path, which must be the volume's own: a
// mount. A measurement is one system call.
func NewMetricsStatFS(path string) Provider {
	return providerFunc(func(ctx context.Context) (*Metrics, error) {
		usage, err := fsusage.Stat(ctx, path)
		if err != nil {
			return nil, err
		}
		return metricsOf(usage, time.Now()), nil
	})
}

// NewMetricsBlock measures a block device: only its capacity.
func NewMetricsBlock(device string) Provider {
	return providerFunc(func(ctx context.Context) (*Metrics, error) {
		size, err := fsusage.BlockSize(ctx, device)
		if err != nil {
			return nil, err
		}
		return &Metrics{Time: time.Now(), Capacity: quantity(size)}, nil
	})
}

// NewMetricsDu measures a directory that shares its file system with others: it counts the
// used bytes and inodes by a walk, see [fsusage.Walker]; the other quantities are the file
// system's. Unreadable entries, Unread of a [fsusage.Tree], are not counted. A walker
// may keep results for a time, for several volumes; nil: a walker that keeps none.
func NewMetricsDu(path string, walker *fsusage.Walker) Provider {
	if walker == nil {
		walker = &fsusage.Walker{}
	}
	return providerFunc(func(ctx context.Context) (*Metrics, error) {
		usage, err := fsusage.Stat(ctx, path)
		if err != nil {
			return nil, err
		}
		tree, err := walker.Walk(ctx, path)
		if err != nil {
			return nil, err
		}
		m := metricsOf(usage, tree.Time)
		m.Used, m.InodesUsed = quantity(tree.Bytes), quantity(tree.Inodes)
		return m, nil
	})
}

// Info returns the bytes and inodes of the file system at path. See
// [fsusage.Info].
func Info(ctx context.Context, path string) (available, capacity, usage, inodes, inodesFree, inodesUsed int64, err error) {
	return fsusage.Info(ctx, path)
}

func metricsOf(u fsusage.Usage, at time.Time) *Metrics {
	return &Metrics{
		Time:       at,
		Capacity:   quantity(u.Capacity),
		Used:       quantity(u.Used),
		Available:  quantity(u.Available),
		Inodes:     quantity(u.Inodes),
		InodesUsed: quantity(u.InodesUsed),
		InodesFree: quantity(u.InodesFree),
	}
}

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
