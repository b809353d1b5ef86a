package driver_test

import (
	"context"
	"errors"
	"syscall"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"google.golang.org/grpc/codes"
)

// A faultyPlugin reports a fault of its volumes.
type faultyPlugin struct {
	*volumetest.FakePlugin
	message *string
}

func (p faultyPlugin) NewUnmounterAt(dir string) (volume.Unmounter, error) {
	u, err := p.FakePlugin.NewUnmounterAt(dir)
	return faultyVolume{u, p.message}, err
}

type faultyVolume struct {
	volume.Unmounter
	message *string
}

func (v faultyVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	m, err := v.Unmounter.GetMetrics(ctx)
	if err == nil {
		abnormal := true
		m.Abnormal, m.Message = &abnormal, v.message
	}
	return m, err
}

// TestVolumeCondition: the condition is the plugin's, a volume that the plugin can measure is normal, and one that
// is not mounted any more, or whose file system does not work, is abnormal.
func TestVolumeCondition(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.ready("pvc-1", manyWriters)
	require.NoError(t, r.publish(v, r.target("a"), manyWriters))
	measure := func() (*csipb.NodeGetVolumeStatsResponse, condition.Condition, error) {
		answer, err := r.node.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: v.VolumeId, VolumePath: r.target("a")})
		c, ok := condition.Of(answer)
		require.Equal(t, err == nil, ok, "the specification requires the condition of a driver with the capability")
		return answer, c, err
	}
	answer, c, err := measure()
	require.NoError(t, err)
	require.Len(t, answer.Usage, 2)
	require.Equal(t, condition.Condition{Message: "the volume can be measured"}, c)

	r.plugin.Inject(volumetest.Fault{Method: volumetest.GetMetrics, Err: syscall.ESTALE, Times: 1})
	answer, c, err = measure()
	require.NoError(t, err)
	require.Empty(t, answer.Usage)
	require.True(t, c.Abnormal)
	require.Contains(t, c.Message, syscall.ESTALE.Error())
	for err, code := range map[error]codes.Code{
		errors.New("no"): codes.Internal, syscall.EACCES: codes.Internal, volume.AsTransient(errors.New("busy")): codes.Unavailable,
	} {
		r.plugin.Inject(volumetest.Fault{Method: volumetest.GetMetrics, Err: err, Times: 1})
		_, _, err := measure()
		requireCode(t, code, err)
	}

	text := "bad\nblocks"
	r.change = func(c *driver.Config) { c.Plugin = faultyPlugin{r.plugin, &text} }
	r.restart()
	answer, c, err = measure()
	require.NoError(t, err)
	require.Len(t, answer.Usage, 2)
	require.Equal(t, condition.Condition{Abnormal: true, Message: "bad blocks"}, c)
	r.change = func(c *driver.Config) { c.Plugin = faultyPlugin{r.plugin, nil} }
	r.restart()
	_, c, err = measure()
	require.NoError(t, err)
	require.Equal(t, condition.Condition{Abnormal: true, Message: "the plugin reports a fault"}, c)

	require.NoError(t, r.mounter.Unmount(t.Context(), r.target("a")))
	answer, c, err = measure()
	require.NoError(t, err)
	require.Empty(t, answer.Usage)
	require.True(t, c.Abnormal)
	require.Contains(t, c.Message, "not mounted")
}
