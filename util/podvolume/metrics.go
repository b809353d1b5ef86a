package podvolume

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/metrics"
	"github.com/volumekit/volumekit/volume"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewWalker returns a walker for the volumes of a plugin that have no file system of
// their own. It repeats a result for ten seconds.
func NewWalker() *fsusage.Walker { return &fsusage.Walker{MaxAge: 10 * time.Second} }

// GetMetrics measures the file system of the mount at dir, which other volumes may
// share.
func (p *Mounts) GetMetrics(ctx context.Context, dir string) (*volume.Metrics, error) {
	return measure(ctx, metrics.NewMetricsStatFS(dir), func() error { return p.CheckMounted(ctx, dir) })
}

// GetCounted is GetMetrics for volumes that are a part of a file system: the walker counts
// the bytes and inodes in use.
func (p *Mounts) GetCounted(ctx context.Context, dir string, walker *fsusage.Walker) (*volume.Metrics, error) {
	return measure(ctx, metrics.NewMetricsDu(dir, walker), func() error { return p.CheckMounted(ctx, dir) })
}

// GetMetrics measures the volume at dir: the file system of its own, if it has one, or
// else the files in it ([fsusage.Walker]), and the file system that it shares with
// others. If the volume is not up the error wraps [volume.ErrNotMounted].
func (p *Dirs) GetMetrics(ctx context.Context, dir string) (_ *volume.Metrics, err error) {
	defer brief.Shorten(&err)
	v, err := p.podDirAt(dir)
	if err != nil {
		return nil, err
	}
	is, err := v.readStateInTime(ctx)
	if err != nil {
		return nil, err
	}
	by := metrics.NewMetricsDu(v.dir, p.walker)
	if is.note.Mounted {
		by = metrics.NewMetricsStatFS(v.dir)
	}
	return measure(ctx, by, func() error {
		_, err := p.Find(ctx, dir)
		return err
	})
}

// measure measures only a volume that is up, and returns the result only if it still is:
// otherwise the numbers are those of the file system below.
func measure(ctx context.Context, by metrics.Provider, isUp func() error) (_ *volume.Metrics, err error) {
	defer brief.Shorten(&err)
	if err := isUp(); err != nil {
		return nil, err
	}
	found, err := by.GetMetrics(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, util.Transient(err)
	}
	if err := isUp(); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, util.Transient(err) // taken down and up again meanwhile
	}
	return &volume.Metrics{
		Time:     metav1.NewTime(found.Time),
		Capacity: found.Capacity, Used: found.Used, Available: found.Available,
		Inodes: found.Inodes, InodesUsed: found.InodesUsed, InodesFree: found.InodesFree,
	}, nil
}
