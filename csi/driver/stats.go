package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodeGetVolumeStats implements the node service by the plugin's GetMetrics. It runs beside other calls
// for the volume.
func (d *driver) NodeGetVolumeStats(ctx context.Context, req *csipb.NodeGetVolumeStatsRequest) (*csipb.NodeGetVolumeStatsResponse, error) {
	id, err := requireID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := requireText(field.NewPath("volumePath"), req.GetVolumePath(), longestPath); err != nil {
		return nil, err
	}
	m, err := d.measure(ctx, id, req.GetVolumePath())
	if errors.Is(err, volume.ErrNotSupported) {
		err = coded(codes.Unimplemented, err)
	}
	if err != nil {
		return nil, fmt.Errorf("measure volume %s: %w", input.Quote(id.text), err)
	}
	resp := &csipb.NodeGetVolumeStatsResponse{}
	resp.Usage = appendUsage(resp.Usage, csipb.VolumeUsage_BYTES, m.Capacity, m.Used, m.Available)
	resp.Usage = appendUsage(resp.Usage, csipb.VolumeUsage_INODES, m.Inodes, m.InodesUsed, m.InodesFree)
	return resp, condition.Set(resp, conditionOf(m))
}

// conditionOf returns the condition of a measured volume. A volume that the plugin can measure is normal,
// unless the plugin reports a fault.
func conditionOf(m *volume.Metrics) (c condition.Condition) {
	c.Abnormal = m.Abnormal != nil && *m.Abnormal
	switch {
	case m.Message != nil:
		c.Message = redaction.Message(*m.Message, nil)
	case c.Abnormal:
		c.Message = "the plugin reports a fault"
	default:
		c.Message = "the volume can be measured"
	}
	return c
}

// measure measures the volume at a path at which it is published or staged. The measurement of a volume that
// is not mounted any more, or whose file system does not work, has a fault and no numbers.
func (d *driver) measure(ctx context.Context, id volumeID, at string) (*volume.Metrics, error) {
	provider, err := d.provider(ctx, id, at)
	if err != nil {
		return nil, err
	}
	m, err := provider.GetMetrics(ctx)
	if errors.Is(err, volume.ErrNotMounted) || ctx.Err() == nil && mount.IsCorrupted(err) {
		abnormal, message := true, err.Error()
		return &volume.Metrics{Abnormal: &abnormal, Message: &message}, nil
	}
	return m, err
}

// provider returns the measurements of the volume at a path at which it is published or staged.
func (d *driver) provider(ctx context.Context, id volumeID, at string) (volume.MetricsProvider, error) {
	rec, used, err := d.usedAt(id, at)
	if err != nil && d.block != nil && codeOf(err) == codes.NotFound {
		rec, used, err = d.deviceAt(ctx, id, at, err)
	}
	if err != nil {
		return nil, err
	}
	measured := used.path
	if !used.published {
		switch {
		case rec.Staged.DeviceMount != "":
			measured = rec.Staged.DeviceMount
		case len(rec.Published) > 0:
			measured = rec.Published[0].Path
		default:
			return nil, fmt.Errorf("staged, and not published: %w", volume.ErrNotMounted)
		}
	}
	if used.record.Block {
		return d.block.NewBlockVolumeUnmapper(id.name, podAt(measured).UID)
	}
	return d.paths.NewUnmounterAt(measured)
}

// stating are the paths whose file systems are queried.
var stating keylock.Map

// deviceAt returns the publication of a raw device that is bound at another path, too: a kubelet measures a
// device below its directory for the volume, and not at the target path. Notfound is the error for a path
// without the device.
func (d *driver) deviceAt(ctx context.Context, id volumeID, at string, notFound error) (*nodeRecord, use, error) {
	rec, err := d.onNode.read(id.text)
	if err != nil || rec == nil || !path.IsAbs(at) {
		return nil, use{}, errors.Join(notFound, err)
	}
	if _, err := d.paths.NewUnmounterAt(at); err != nil { // a path outside of the directories for volumes
		return nil, use{}, notFound
	}
	find := func() (found *targetRecord, err error) {
		is, err := os.Lstat(at)
		for i := range rec.Published {
			p := &rec.Published[i]
			if want, failed := os.Lstat(p.Path); err == nil && failed == nil && p.Usage.Block && !d.isTaken(id, *p) && os.SameFile(is, want) {
				return p, nil
			}
		}
		return nil, nil
	}
	p, _, err := keylock.Await(ctx, stating.Key(at), ctxend.Kernel, find, nil)
	switch {
	case err != nil:
		return nil, use{}, err
	case p == nil:
		return nil, use{}, notFound
	}
	return rec, use{p.Path, p.Usage, true}, nil
}

// appendUsage appends the numbers of a unit, if the total is known. Others that are not known are 0.
func appendUsage(to []*csipb.VolumeUsage, unit csipb.VolumeUsage_Unit, total, used, available *resource.Quantity) []*csipb.VolumeUsage {
	if total == nil {
		return to
	}
	return append(to, &csipb.VolumeUsage{Unit: unit, Total: amount(total), Used: amount(used), Available: amount(available)})
}

// amount returns a number that is not negative.
func amount(q *resource.Quantity) int64 {
	n, err := quantity.Bytes(q)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
