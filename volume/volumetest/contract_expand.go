package volumetest

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// An expansion is of a volume that is up.
type expansion struct {
	*contract
	spec    *volume.Spec
	mounter volume.Mounter
	options volume.NodeResizeOptions
}

// expansion ends the test if the plugin grows no volumes at all.
func (c *contract) expansion() expansion {
	c.Helper()
	if _, able := volume.As[volume.NodeExpandableVolumePlugin](c.plugin); !able {
		require.Nil(c, c.Enlarge, "the configuration has Enlarge, and the plugin is no NodeExpandableVolumePlugin")
		c.Skip("the plugin grows no volumes")
	}
	spec, mounter := c.up()
	c.Cleanup(func() { require.NoError(c, c.newUnmounter(spec).TearDown(context.Background())) })
	e := expansion{c, spec, mounter, volume.NodeResizeOptions{Spec: spec}}
	if d, ok := c.device(spec); ok {
		e.options.DeviceMountPath = d.path
	}
	return e
}

// growing is expansion for those whose storage grows, which it has done.
func (c *contract) growing() expansion {
	c.Helper()
	e := c.expansion()
	if c.Enlarge == nil {
		c.Skip("the storage of the plugin's volumes does not grow")
	}
	e.enlarge()
	return e
}

func (e *expansion) enlarge() { e.options.NewSize = e.Enlarge(e.T, e.spec) }

func (e expansion) by(ctx context.Context, plugin volume.VolumePlugin) (bool, error) {
	e.Helper()
	able, ok := volume.As[volume.NodeExpandableVolumePlugin](plugin)
	require.True(e, ok)
	return able.NodeExpand(ctx, e.options)
}

// to is the same to another size.
func (e expansion) to(size resource.Quantity) expansion {
	e.options.NewSize = size
	return e
}

func (e expansion) requireDone(plugin volume.VolumePlugin, what string) {
	e.Helper()
	done, err := e.by(e.Context(), plugin)
	require.NoError(e, err, what)
	require.True(e, done, "the storage is as large as that: %s", what)
}

// capacity is 0 of storage that others use, too.
func (e expansion) capacity() int64 {
	e.Helper()
	if !e.OwnCapacity {
		return 0
	}
	metrics, err := e.mounter.GetMetrics(e.Context())
	require.NoError(e, err)
	require.NotNil(e, metrics.Capacity)
	return metrics.Capacity.Value()
}

func (c *contract) expand() {
	e := c.expansion()
	up := c.podState()
	if c.Enlarge == nil {
		done, err := e.to(resource.MustParse("1Gi")).by(c.Context(), c.plugin)
		require.ErrorIs(c, err, volume.ErrNotSupported, "to grow volumes the configuration needs Enlarge")
		require.False(c, done)
		c.requirePodsUnchanged(up, "what is not supported changed something")
		return
	}
	for range 2 {
		before := e.capacity()
		e.enlarge()
		e.requireNotYet()
		for _, plugin := range []volume.VolumePlugin{c.plugin, c.plugin, c.restarted()} {
			e.requireDone(plugin, "and so it is if it is asked again")
		}
		if c.OwnCapacity {
			require.Greater(c, e.capacity(), before)
		}
	}
	c.allAtOnce(func() error {
		_, err := e.by(c.Context(), c.plugin)
		return err
	})
	c.requirePodsUnchanged(up, "growing a volume changed what is mounted")
}

// requireNotYet: storage has to be there first.
func (e expansion) requireNotYet() {
	e.Helper()
	size := e.options.NewSize.Value()
	done, err := e.to(*resource.NewQuantity(64*size, resource.BinarySI)).by(e.Context(), e.plugin)
	require.NoError(e, err)
	require.False(e, done, "the storage is not as large as that")
}

func (c *contract) expandBad() {
	e := c.expansion()
	before := c.podState()
	specs := nobodysSpecs()
	for i, spec := range c.Unsupported {
		specs[fmt.Sprint("unsupported ", i)] = spec
	}
	for what, spec := range specs {
		e := e
		e.options.Spec = spec
		done, err := e.by(c.Context(), c.plugin)
		require.Error(c, err, what)
		require.False(c, done, what)
	}
	for i, q := range hostileQuantities() {
		what := fmt.Sprint("the size is hostile quantity ", i)
		c.soonEnds(what, func() {
			if done, err := e.to(q).by(c.Context(), c.plugin); err != nil && done {
				c.Errorf("%s: it is done, and it is not: %v", what, err)
			}
		})
	}
	c.requirePodsUnchanged(before, "what cannot be changed something")
}

func (c *contract) expandEndedContext() {
	e := c.growing()
	before := c.podState()
	ended, cancel := context.WithCancel(c.Context())
	cancel()
	done, err := e.by(ended, c.plugin)
	require.ErrorIs(c, err, context.Canceled)
	require.False(c, done)
	c.requirePodsUnchanged(before, "growing with an ended context changed something")
	e.requireDone(c.plugin, "the same call, once more")
}

// Each call of the mounter that growing makes fails, or hangs. The volume stays up, and
// once that stops the same call succeeds.
func (c *contract) expandEveryFailure() {
	fake, e := c.fake(), c.growing()
	for _, op := range operationsOf(fake, func() { e.requireDone(c.plugin, "nothing fails") }) {
		for i, failure := range failures {
			e.withFault(fake, mounttest.Fault{Op: op, Err: failure})
			e.withFault(fake, mounttest.Fault{Op: op, Err: failure, Times: i % 2, After: true})
		}
		e.withFault(fake, mounttest.Fault{Op: op, Delay: 24 * time.Hour})
	}
}

func (e expansion) withFault(fake *mounttest.Fake, fault mounttest.Fault) {
	e.Helper()
	what := fmt.Sprintf("%s fails with %v, or hangs: %s", fault.Op, fault.Err, fault.Delay)
	e.enlarge()
	up := e.podState()
	fake.Inject(fault)
	grow := func(ctx context.Context) error {
		done, err := e.by(ctx, e.plugin)
		if done && err != nil {
			e.Errorf("%s: it is done, and it is not: %v", what, err)
		}
		return err
	}
	if fault.Delay > 0 {
		_ = e.inTime(what, grow)
	} else {
		_ = grow(e.Context())
	}
	fake.ClearFaults()
	e.requirePodsUnchanged(up, what)
	e.requireDone(e.plugin, "after "+what)
}
