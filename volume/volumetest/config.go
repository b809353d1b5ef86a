package volumetest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// Config describes a plugin for [TestPlugin]. New and Spec are required. R is *testing.T: the
// functions receive the test that calls them. Write Config[*testing.T]{...}.
type Config[R any] struct {
	// New returns a new plugin that mounts with mounter. The test registers the plugin,
	// which calls Init.
	New func(t R, host volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin

	// NewMounter returns the kernel of one test. Nil: a new mounttest.Fake. With a real
	// kernel the test must run in a namespace in which it may mount, see
	// mounttest.Namespace.
	NewMounter func(t R) mount.Interface

	// Spec returns a writable volume of the plugin, whose storage is not shared with any
	// volume that it returned before.
	Spec func(t R) *volume.Spec
	// ReadOnlySpec is like Spec, with a volume whose source is read-only. Nil: the kind of
	// volume has no read-only sources.
	ReadOnlySpec func(t R) *volume.Spec
	// Unsupported are volumes of other kinds.
	Unsupported []*volume.Spec
	// Invalid are volumes of the plugin's kind, by their mistakes, that NewMounter
	// refuses with a *field.Error or *mount.InputError. Volumes with invalid names need
	// not be listed.
	Invalid map[string]*volume.Spec

	// BlockSpec is like Spec, with a raw device. It is required if the plugin is a
	// volume.BlockVolumePlugin.
	BlockSpec func(t R) *volume.Spec
	// NoBlock skips the tests of raw devices: this configuration has none.
	NoBlock bool

	// Enlarge makes the storage of a volume of Spec larger, and returns its new size:
	// at most twice the old one. Nil: the storage does not grow, and a
	// volume.NodeExpandableVolumePlugin returns volume.ErrNotSupported.
	Enlarge func(t R, spec *volume.Spec) resource.Quantity
	// OwnCapacity says that GetMetrics returns the capacity of the volume's own storage:
	// more, after it has grown.
	OwnCapacity bool

	// SharedAttach says that a volume of Spec can be attached to several nodes even if its
	// access modes allow one: the caller ensures that it attaches it to one.
	SharedAttach bool
	// MaxVolumes is the largest number of volumes of Spec on a node. 0: no limit is
	// tested.
	MaxVolumes int

	// InfeasibleSize is a size that no volume's storage can have. Zero: not tested.
	InfeasibleSize resource.Quantity
	// OfflineExpansion says that storage grows only while the volume is not attached.
	OfflineExpansion bool
	// Claim returns options that the plugin can fulfil: a unique volume name, a claim with
	// a size, and a class. It is required if the plugin is a
	// volume.ProvisionableVolumePlugin.
	Claim func(t R) volume.VolumeOptions
	// Infeasible are, by the reason, volumes that the plugin can never provision.
	Infeasible map[string]volume.VolumeOptions
	// OtherNode is a node for which the plugin cannot provision. Nil: it can for every node.
	OtherNode *v1.Node

	// Backing returns the directory that a volume of Spec shows. Nil: the node has no such
	// directory, and it is not tested that files in it survive.
	Backing func(spec *volume.Spec) string
	// NoMetrics skips the test of GetMetrics of a volume that is set up: a fake kernel has
	// nothing to measure.
	NoMetrics bool

	// Plain says that a volume that is set up is a directory and no mount point.
	Plain bool
	// Directory is the name of the directory, in the host's directory for the pod's volume, at which
	// a volume is set up, such as "mount". Empty: that directory itself.
	Directory string
	// Ephemeral says that TearDown deletes the volume's files.
	Ephemeral bool
	// Keeps reports whether the plugin keeps the entry at a path, relative to its own
	// directory, after the last volume. Nil: it keeps nothing, and any entry left there
	// is a leak.
	Keeps func(name string) bool
	// Arguments lists the plugin's reaction to arguments of SetUp. Arguments that are not
	// listed are refused.
	Arguments Arguments
	// RuntimeReadOnly says that a volume that is read-only for a pod or by its claim is
	// set up writable all the same: the program that binds it into a container makes that
	// mount read-only.
	RuntimeReadOnly bool
	// SELinuxRelabel says that GetAttributes returns SELinuxRelabel: the files in the volume can
	// carry SELinux labels.
	SELinuxRelabel bool
}
