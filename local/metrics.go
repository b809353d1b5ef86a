package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GetMetrics measures the file system that the directory is in, which other
// volumes may share.
func (v podVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	if err := v.checkMounted(ctx); err != nil {
		return nil, err
	}
	usage, err := fsusage.Stat(ctx, v.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, transient(err)
	}
	// Without the volume the numbers are those of the file system below it.
	if err := v.checkMounted(ctx); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, transient(err) // taken down and up again meanwhile
	}
	return &volume.Metrics{
		Time:       metav1.Now(),
		Capacity:   bytes(usage.Capacity),
		Used:       bytes(usage.Used),
		Available:  bytes(usage.Available),
		Inodes:     bytes(usage.Inodes),
		InodesUsed: bytes(usage.InodesUsed),
		InodesFree: bytes(usage.InodesFree),
	}, nil
}

// checkMounted fails with [volume.ErrNotMounted] if nothing is mounted there.
func (v podVolume) checkMounted(ctx context.Context) error {
	mounted, err := v.plugin.config.Mounter.IsMountPoint(ctx, v.path)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return transient(err)
	case !mounted:
		return fmt.Errorf("%w: %s", volume.ErrNotMounted, v.path)
	}
	return nil
}

func bytes(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
