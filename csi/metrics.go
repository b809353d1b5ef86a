package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/oneline"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GetMetrics calls NodeGetVolumeStats. The error for a driver without the capability GET_VOLUME_STATS
// wraps [volume.ErrNotSupported]. The volume condition is that of a driver with VOLUME_CONDITION.
// A call that changes the volume interrupts one that takes too long: the error is then transient.
func (v podVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	return v.plugin.metricsOf(ctx, v.target, v.target.path)
}

// metricsOf measures the volume that the file of a target describes, by the path at which it is
// published.
func (p *Plugin) metricsOf(ctx context.Context, t target, published string) (_ *volume.Metrics, err error) {
	defer brief.Shorten(&err)
	if ctx.Err() != nil {
		return nil, volume.AsTransient(ctxend.Error(ctx))
	}
	data, err := p.readData(t)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", published, volume.ErrNotMounted)
	case err != nil:
		return nil, util.Transient(err)
	}
	c, caps, err := p.clientOf(ctx, data.DriverName)
	if err != nil {
		return nil, err
	}
	if !caps.stats {
		return nil, fmt.Errorf("measure a volume of driver %s, which has no GET_VOLUME_STATS: %w", c.Name, volume.ErrNotSupported)
	}
	answers := make(chan *csipb.NodeGetVolumeStatsResponse, 1)
	err = p.measure(ctx, volumeName(c.Name, data.VolumeHandle), func(ctx context.Context) error {
		answer, err := c.node.NodeGetVolumeStats(ctx, &csipb.NodeGetVolumeStatsRequest{VolumeId: data.VolumeHandle, VolumePath: published})
		answers <- answer
		return err
	})
	if err != nil {
		return nil, &harmlessError{fmt.Errorf("measure the volume at %s: %w", published, err)}
	}
	return metricsFrom(<-answers, caps), nil
}

// metricsFrom returns the numbers of an answer. Negative ones, which the specification forbids, are
// omitted.
func metricsFrom(answer *csipb.NodeGetVolumeStatsResponse, caps capabilities) *volume.Metrics {
	m := &volume.Metrics{Time: metav1.Now()}
	for _, usage := range answer.GetUsage() {
		total, used, free := usage.GetTotal(), usage.GetUsed(), usage.GetAvailable()
		switch usage.GetUnit() {
		case csipb.VolumeUsage_BYTES:
			m.Capacity, m.Used, m.Available = count(total, resource.BinarySI), count(used, resource.BinarySI), count(free, resource.BinarySI)
		case csipb.VolumeUsage_INODES:
			m.Inodes, m.InodesUsed, m.InodesFree = count(total, resource.DecimalSI), count(used, resource.DecimalSI), count(free, resource.DecimalSI)
		}
	}
	if !caps.condition {
		return m
	}
	if c, ok := condition.Of(answer); ok {
		message := brief.Text(oneline.Of(c.Message))
		m.Abnormal, m.Message = &c.Abnormal, &message
	}
	return m
}

func count(n int64, format resource.Format) *resource.Quantity {
	if n < 0 {
		return nil
	}
	return resource.NewQuantity(n, format)
}
