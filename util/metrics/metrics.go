package metrics

import (
	"context"
	"time"

	"github.com/volumekit/volumekit/util/fsusage"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Metrics is what was measured of one volume. A nil quantity was not: a kind of volume
// need not have all of them, nor does each file system know its inodes.
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
	// GetMetrics measures. What is missing is an error that wraps fs.ErrNotExist. It
	// returns soon after ctx ends, with an error that wraps ctx's cause.
	GetMetrics(ctx context.Context) (*Metrics, error)
}

type providerFunc func(ctx context.Context) (*Metrics, error)

func (f providerFunc) GetMetrics(ctx context.Context) (*Metrics, error) { return f(ctx) }

// NewMetricsStatFS measures the file system at path, which is the volume's own: a
// mount. It costs one system call.
func NewMetricsStatFS(path string) Provider {
	return providerFunc(func(ctx context.Context) (*Metrics, error) {
		usage, err := Info(ctx, path)
		if err != nil {
			return nil, err
		}
		return of(usage, time.Now()), nil
	})
}

// NewMetricsBlock measures a block device, of which only the capacity is known.
func NewMetricsBlock(device string) Provider {
	return providerFunc(func(ctx context.Context) (*Metrics, error) {
		size, err := fsusage.BlockSize(ctx, device)
		if err != nil {
			return nil, err
		}
		return &Metrics{Time: time.Now(), Capacity: quantity(size)}, nil
	})
}

// NewMetricsDu measures a directory that shares its file system with others: what is in
// use is counted by walking through it, see [fsusage.Walker]; the rest is the file
// system's. What could not be read, Unread of a [fsusage.Tree], is missing in it. A walker
// of one's own remembers what it has found, for several volumes; nil:
// one that remembers nothing.
func NewMetricsDu(path string, walker *fsusage.Walker) Provider {
	if walker == nil {
		walker = &fsusage.Walker{}
	}
	return providerFunc(func(ctx context.Context) (*Metrics, error) {
		usage, err := Info(ctx, path)
		if err != nil {
			return nil, err
		}
		tree, err := walker.Walk(ctx, path)
		if err != nil {
			return nil, err
		}
		m := of(usage, tree.Time)
		m.Used, m.InodesUsed = quantity(tree.Bytes), quantity(tree.Inodes)
		return m, nil
	})
}

// Info asks the file system at path, in plain numbers.
func Info(ctx context.Context, path string) (fsusage.Usage, error) { return fsusage.Stat(ctx, path) }

// of leaves out what the file system does not know.
func of(u fsusage.Usage, at time.Time) *Metrics {
	m := &Metrics{Time: at}
	if u.Capacity > 0 {
		m.Capacity, m.Used, m.Available = quantity(u.Capacity), quantity(u.Used), quantity(u.Available)
	}
	if u.Inodes > 0 {
		m.Inodes, m.InodesUsed, m.InodesFree = quantity(u.Inodes), quantity(u.InodesUsed), quantity(u.InodesFree)
	}
	return m
}

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
