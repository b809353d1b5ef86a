package emptydir

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/quantity"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Sizes are in bytes; 0 means no limit, as for file systems.

// limitOf returns the limit in a volume's specification.
func limitOf(written *resource.Quantity) (int64, error) {
	return bytesOf(field.NewPath("spec", "volume", "emptyDir", "sizeLimit"), written)
}

func bytesOf(at *field.Path, q *resource.Quantity) (int64, error) {
	switch {
	case q == nil:
		return 0, nil
	case q.Sign() < 0:
		return 0, field.Invalid(at, quantity.Text(q), "must be at least 0")
	}
	n, err := quantity.Bytes(q)
	if err != nil {
		return 0, field.Invalid(at, quantity.Text(q), err.Error())
	}
	return n, nil
}

// memorySize returns the size of a volume in memory for the requested size; 0: no request.
func (p *Plugin) memorySize(ctx context.Context, asked int64) (int64, error) {
	most, usual := p.memory, p.memory/2
	if p.config.Node != nil {
		allocatable, err := p.allocatable(ctx)
		if err != nil {
			return 0, util.Transient(fmt.Errorf("query the node's allocatable memory: %w", err))
		}
		most, usual = allocatable, allocatable
	}
	if p.config.MemorySize > 0 {
		usual = p.config.MemorySize
	}
	if asked == 0 {
		asked = usual
	}
	return smallest(asked, most), nil
}

var errNoMemory = errors.New("the node reports no memory")

func (p *Plugin) allocatable(ctx context.Context) (int64, error) {
	all, err := p.config.Node.GetNodeAllocatable(ctx)
	if err != nil {
		return 0, err
	}
	q := all[v1.ResourceMemory]
	n, err := quantity.Bytes(&q)
	if err == nil && n <= 0 {
		err = errNoMemory
	}
	return n, err
}

// smallest returns the smallest of the limits that are not 0, or 0.
func smallest(limits ...int64) int64 {
	var least int64
	for _, n := range limits {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}
