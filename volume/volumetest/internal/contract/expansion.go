package contract

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// An expansion is the growth of a volume that is set up.
type expansion struct {
	*contract
	spec    *volume.Spec
	mounter volume.Mounter
	options volume.NodeResizeOptions
}

// expansion returns a volume that is set up, or skips the test if the plugin cannot expand.
func (c *contract) expansion() expansion {
	c.Helper()
	if _, able := volume.As[volume.NodeExpandableVolumePlugin](c.plugin); !able {
		require.Nil(c, c.Enlarge, "the configuration has Enlarge, and the plugin is no NodeExpandableVolumePlugin")
		c.Skip("the plugin grows no volumes")
	}
	spec, mounter := c.mustSetUp()
	c.Cleanup(func() { require.NoError(c, c.newUnmounter(spec).TearDown(context.Background())) })
	e := expansion{c, spec, mounter, volume.NodeResizeOptions{Spec: spec, VolumePath: mounter.GetPath()}}
	if d, ok := c.device(spec); ok {
		e.options.DeviceMountPath, e.options.DeviceStagePath = d.path, d.path
	}
	return e
}

// grownExpansion is expansion with storage that has grown; it skips the test if storage cannot grow.
func (c *contract) grownExpansion() expansion {
	c.Helper()
	e := c.expansion()
	if c.Enlarge == nil {
		c.Skip("the storage of the plugin's volumes does not grow")
	}
	e.enlarge()
	return e
}

func (e *expansion) enlarge() { e.options.NewSize = e.Enlarge(e.spec) }

func (e expansion) expandWith(ctx context.Context, plugin volume.VolumePlugin) (bool, error) {
	e.Helper()
	able, ok := volume.As[volume.NodeExpandableVolumePlugin](plugin)
	require.True(e, ok)
	return able.NodeExpand(ctx, e.options)
}

// withSize returns the same expansion to another size.
func (e expansion) withSize(size resource.Quantity) expansion {
	e.options.NewSize = size
	return e
}

func (e expansion) requireDone(plugin volume.VolumePlugin, what string) {
	e.Helper()
	done, err := e.expandWith(e.Context(), plugin)
	require.NoError(e, err, what)
	require.True(e, done, "the storage is as large as that: %s", what)
}

// capacity returns the capacity of the volume, or 0 if its storage is shared.
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
		done, err := e.withSize(resource.MustParse("1Gi")).expandWith(c.Context(), c.plugin)
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
		_, err := e.expandWith(c.Context(), c.plugin)
		return err
	})
	c.requirePodsUnchanged(up, "growing a volume changed what is mounted")
}

// requireNotYet: NodeExpand to a size beyond the storage's reports that it is not done.
func (e expansion) requireNotYet() {
	e.Helper()
	size := e.options.NewSize.Value()
	done, err := e.withSize(*resource.NewQuantity(64*size, resource.BinarySI)).expandWith(e.Context(), e.plugin)
	require.NoError(e, err)
	require.False(e, done, "the storage is not as large as that")
}

func (c *contract) expandBad() {
	e := c.expansion()
	before := c.podState()
	specs := unsupportedSpecs()
	for i, spec := range c.Unsupported {
		specs[fmt.Sprint("unsupported ", i)] = spec
	}
	for what, spec := range specs {
		e := e
		e.options.Spec = spec
		done, err := e.expandWith(c.Context(), c.plugin)
		require.Error(c, err, what)
		require.False(c, done, what)
	}
	for i, q := range hostileQuantities() {
		what := fmt.Sprint("the size is hostile quantity ", i)
		c.requireReturns(what, func() {
			if done, err := e.withSize(q).expandWith(c.Context(), c.plugin); err != nil && done {
				c.Fatalf("%s: done, and an error: %v", what, err)
			}
		})
	}
	c.requirePodsUnchanged(before, "what cannot be changed something")
}

func (c *contract) expandEndedContext() {
	e := c.grownExpansion()
	before := c.podState()
	ended, cancel := context.WithCancel(c.Context())
	cancel()
	done, err := e.expandWith(ended, c.plugin)
	require.ErrorIs(c, err, context.Canceled)
	require.False(c, done)
	c.requirePodsUnchanged(before, "growing with an ended context changed something")
	e.requireDone(c.plugin, "the same call, once more")
}

// expandEveryFailure: each call of the mounter that NodeExpand makes fails, or hangs. The
// volume stays set up, and without faults the same call succeeds.
func (c *contract) expandEveryFailure() {
	fake, e := c.requireFake(), c.grownExpansion()
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
		done, err := e.expandWith(ctx, e.plugin)
		if done && err != nil {
			e.Error(what+": done, and an error:", err)
		}
		return err
	}
	if fault.Delay > 0 {
		_ = e.requireContextError(what, grow)
	} else {
		_ = grow(e.Context())
	}
	fake.ClearFaults()
	e.requirePodsUnchanged(up, what)
	e.requireDone(e.plugin, "after "+what)
}
