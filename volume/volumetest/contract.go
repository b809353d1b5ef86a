package volumetest

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest/internal/contract"
)

// TestPlugin tests each promise of [volume.VolumePlugin], [volume.Mounter] and
// [volume.Unmounter]. A volume that a plugin mounts once per node, see
// [volume.DeviceMountableVolumePlugin], is mounted so before each test, and that is tested,
// too. So are [volume.PathVolumePlugin], [volume.AttachableVolumePlugin],
// [volume.ProvisionableVolumePlugin], [volume.ExpandableVolumePlugin],
// [volume.BlockVolumePlugin] and [volume.NodeExpandableVolumePlugin].
//
// Failing and hanging calls of the mounter are tested with a mounttest.Fake alone; a pod's
// changes in its volume, the size and, without Config.Backing, the owners of files on a real
// kernel alone: a plugin needs a run with each.
func TestPlugin[R mounttest.Runner[R]](t R, config Config[R]) {
	t.Helper()
	if config.New == nil {
		t.Fatal("Config.New is needed")
	}
	if config.Spec == nil {
		t.Fatal("Config.Spec is needed")
	}
	for name, test := range contract.Tests() {
		t.Run(name, func(t R) { test(t, config.bind(t)) })
	}
}

// bind returns the configuration of one test, whose functions receive t.
func (c Config[R]) bind(t R) contract.Config {
	bound := contract.Config{
		New: func(host volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
			return c.New(t, host, mounter)
		},
		NewMounter:       bindTo(t, c.NewMounter),
		Spec:             bindTo(t, c.Spec),
		ReadOnlySpec:     bindTo(t, c.ReadOnlySpec),
		Unsupported:      c.Unsupported,
		Invalid:          c.Invalid,
		BlockSpec:        bindTo(t, c.BlockSpec),
		NoBlock:          c.NoBlock,
		OwnCapacity:      c.OwnCapacity,
		SharedAttach:     c.SharedAttach,
		MaxVolumes:       c.MaxVolumes,
		InfeasibleSize:   c.InfeasibleSize,
		OfflineExpansion: c.OfflineExpansion,
		Claim:            bindTo(t, c.Claim),
		Infeasible:       c.Infeasible,
		OtherNode:        c.OtherNode,
		Backing:          c.Backing,
		NoMetrics:        c.NoMetrics,
		Plain:            c.Plain,
		Directory:        c.Directory,
		Ephemeral:        c.Ephemeral,
		Keeps:            c.Keeps,
		Arguments:        contract.Arguments(c.Arguments),
		RuntimeReadOnly:  c.RuntimeReadOnly,
		SELinuxRelabel:   c.SELinuxRelabel,
	}
	if c.Enlarge != nil {
		bound.Enlarge = func(spec *volume.Spec) resource.Quantity { return c.Enlarge(t, spec) }
	}
	return bound
}

// bindTo returns a function that passes t to f, or nil if f is nil.
func bindTo[R, V any](t R, f func(t R) V) func() V {
	if f == nil {
		return nil
	}
	return func() V { return f(t) }
}
