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
// changes in a mounted volume, the size and, without Config.Backing, the owners of files on a real
// kernel alone: a plugin needs a run with each.
//
// On Linux the test plays a pod that puts entries into the volume:
//
//   - a symbolic link, a hard link or a FIFO in the place of each file and link that the plugin makes,
//   - a symbolic link to a directory in the place of each entry,
//   - the same at names that exist only while SetUp runs, and at one other name.
//
// No more than 16 entries of a volume are replaced. The next SetUp may replace the pod's entry, leave it as it is,
// or return an error of any kind. Init after a restart, NewMounter, NewUnmounter and TearDown must succeed. These
// calls, GetMetrics, ConstructVolumeSpec and a SetUp after TearDown must return, without waiting for the other end of a
// FIFO, and change no file or directory outside of the volume.
//
// An entry is the plugin's if it is not in Config.Backing before the first SetUp; no other process may write there
// meanwhile. Without Backing all entries are the plugin's with Config.Ephemeral, and otherwise this part is skipped, as
// it could replace files of a user; so it is for mounts of a Fake, which show no files. Not tested are a hard link into
// another file system, one that an FsGroup or FsUser gives to the pod (see util/ownership), an entry that the pod cannot
// replace, a write of MountDevice, one that is made only because the source has changed, and a race against a pod
// that replaces an entry during SetUp, which package util/atomicdir withstands.
//
// A failure of a sound plugin can come from a Config that describes the plugin wrongly. If a wrong Plain,
// Ephemeral, RuntimeReadOnly or Arguments can be the cause, the message ends with the field to change.
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
