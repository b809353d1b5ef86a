package volumetest

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// Config tells [TestPlugin] about a plugin. New and Spec are needed.
type Config struct {
	// New returns a new plugin that mounts with mounter. Init has not been called
	// on it: the test registers it, which does.
	New func(t *testing.T, host volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin

	// NewMounter returns the kernel of one test. Nil: a new mounttest.Fake. With
	// one that is real the test has to run where it may mount, see
	// mounttest.Namespace.
	NewMounter func(t *testing.T) mount.Interface

	// Spec returns a volume that is the plugin's, writable, with storage behind it
	// that is not shared with any it returned before.
	Spec func(t *testing.T) *volume.Spec
	// ReadOnlySpec is like Spec; the volume's source says that it is read-only.
	// Nil: the kind of volume has no way to say so.
	ReadOnlySpec func(t *testing.T) *volume.Spec
	// Unsupported are volumes of other kinds.
	Unsupported []*volume.Spec
	// Invalid are volumes of the plugin's kind, by what is wrong with them, that
	// NewMounter refuses with a *field.Error or *mount.InputError. Those without
	// a good name need not be listed.
	Invalid map[string]*volume.Spec

	// BlockSpec is like Spec; the volume is a raw device. It is needed if the plugin is a
	// volume.BlockVolumePlugin.
	BlockSpec func(t *testing.T) *volume.Spec
	// NoBlock says that raw devices are not tested: this configuration has none.
	NoBlock bool

	// Enlarge makes the storage behind a volume of Spec larger, and returns the size that
	// it has then: twice as much at the most. Nil: it does not grow, and if the plugin is
	// a volume.NodeExpandableVolumePlugin it says volume.ErrNotSupported.
	Enlarge func(t *testing.T, spec *volume.Spec) resource.Quantity
	// OwnCapacity says that GetMetrics of a volume tells the capacity of its own storage:
	// more, when that has grown.
	OwnCapacity bool

	// Backing returns the directory that a volume of Spec shows. Nil: there is
	// none on this node, and it is not tested that files in it survive.
	Backing func(spec *volume.Spec) string
	// NoMetrics says that GetMetrics of a volume that is up is not tested: a fake
	// kernel has nothing to measure.
	NoMetrics bool

	// Plain says that a volume that is up is a directory on which nothing is mounted.
	Plain bool
	// Ephemeral says that what is in a volume goes when it is taken down.
	Ephemeral bool
	// Keeps reports whether the plugin keeps, for longer than there are volumes, what is
	// at a path below its own directory, from which the path goes. Nil: it keeps
	// nothing, and whatever is left there of a volume is a leak.
	Keeps func(name string) bool
	// Arguments says what the plugin does about arguments of SetUp. What is not said is
	// refused.
	Arguments Arguments
	// RuntimeReadOnly says that a volume which a pod, or its claim, only reads from
	// comes up writable all the same: it is for whoever shows it to a container to
	// show it read-only.
	RuntimeReadOnly bool
}

// TestPlugin is the contract of [volume.VolumePlugin], [volume.Mounter] and
// [volume.Unmounter]: each promise of theirs as a test. A volume that a plugin mounts
// once per node, see [volume.DeviceMountableVolumePlugin], is mounted so before each
// test, and that it is so is tested, too. So are [volume.BlockVolumePlugin] and
// [volume.NodeExpandableVolumePlugin].
//
// What happens if a call of the mounter fails or hangs is tested with a mounttest.Fake
// alone, and what a pod does in its volume, its size and, without Config.Backing, the
// owners in it on a real kernel alone: a plugin needs a run with each.
func TestPlugin(t *testing.T, config Config) {
	t.Helper()
	require.NotNil(t, config.New, "Config.New is needed")
	require.NotNil(t, config.Spec, "Config.Spec is needed")
	for name, test := range map[string]func(*contract){
		"Name":                  (*contract).name,
		"VolumeName":            (*contract).volumeName,
		"CanSupport":            (*contract).canSupport,
		"Registry":              (*contract).registry,
		"NewChangesNothing":     (*contract).newChangesNothing,
		"NothingToNew":          (*contract).nothingToNew,
		"InvalidSpecs":          (*contract).invalidSpecs,
		"BadNames":              (*contract).badNames,
		"SetUp":                 (*contract).setUp,
		"SetUpAt":               (*contract).setUpAt,
		"SetUpAtNoPath":         (*contract).setUpAtNoPath,
		"SetUpConcurrently":     (*contract).setUpConcurrently,
		"UpAndDownConcurrently": (*contract).upAndDownConcurrently,
		"TearDown":              (*contract).tearDown,
		"TearDownNothing":       (*contract).tearDownNothing,
		"TearDownStacked":       (*contract).tearDownStacked,
		"KeepsData":             (*contract).keepsData,
		"KeepsStrayData":        (*contract).keepsStrayData,
		"ForgetsData":           (*contract).forgetsData,
		"KeepsStrayFile":        (*contract).keepsStrayFile,
		"ReadOnlySource":        (*contract).readOnlySource,
		"ReadOnlyClaim":         (*contract).readOnlyClaim,
		"ReadOnlyPod":           (*contract).readOnlyPod,
		"ReadOnlyLater":         (*contract).readOnlyLater,
		"FsUser":                (*contract).fsUser,
		"FsGroup":               (*contract).fsGroup,
		"DesiredSize":           (*contract).desiredSize,
		"SELinuxLabel":          (*contract).seLinuxLabel,
		"Block":                 (*contract).blockLife,
		"BlockAtOnce":           (*contract).blockAtOnce,
		"BlockBad":              (*contract).blockBad,
		"BlockConstruct":        (*contract).blockConstruct,
		"BlockEndedContext":     (*contract).blockEndedContext,
		"BlockHostileStrings":   (*contract).blockHostileStrings,
		"BlockKeepsStray":       (*contract).blockKeepsStray,
		"BlockLeavesNothing":    (*contract).blockLeavesNothing,
		"Expand":                (*contract).expand,
		"ExpandBad":             (*contract).expandBad,
		"ExpandEndedContext":    (*contract).expandEndedContext,
		"ExpandEveryFailure":    (*contract).expandEveryFailure,
		"ConstructVolumeSpec":   (*contract).constructVolumeSpec,
		"NotMounted":            (*contract).notMounted,
		"Metrics":               (*contract).metrics,
		"DeviceMount":           (*contract).deviceMount,
		"DeviceMountFails":      (*contract).deviceMountFails,
		"DeviceMountForGroup":   (*contract).deviceMountForGroup,
		"EndedContext":          (*contract).endedContext,
		"MountFails":            (*contract).mountFails,
		"MountHangs":            (*contract).mountHangs,
		"MountUncertain":        (*contract).mountUncertain,
		"UnmountFails":          (*contract).unmountFails,
		"UnmountUncertain":      (*contract).unmountUncertain,
		"Again":                 (*contract).again,
		"Restarts":              (*contract).restarts,
		"OwnedByThePod":         (*contract).ownedByThePod,
		"VerbsAtOnce":           (*contract).verbsAtOnce,
		"EveryFailure":          (*contract).everyFailure,
		"EveryHang":             (*contract).everyHang,
		"ContextEndsMeanwhile":  (*contract).contextEndsMeanwhile,
		"LeavesNothing":         (*contract).leavesNothing,
		"HostileStrings":        (*contract).hostileStringsEverywhere,
		"HostileQuantities":     (*contract).hostileQuantitiesEverywhere,
	} {
		t.Run(name, func(t *testing.T) { test(newContract(t, config)) })
	}
}

// A contract is one test of the contract, with a host of its own.
type contract struct {
	*testing.T
	Config
	host    *volume.Host
	mounter mount.Interface
	plugin  volume.VolumePlugin
	mgr     *volume.VolumePluginMgr
	pod     *v1.Pod
	devices map[string]bool // where volumes are mounted once for the node
}

func newContract(t *testing.T, config Config) *contract {
	t.Helper()
	host, err := volume.NewHost(t.TempDir(), volume.WithNodeName("node-1"))
	require.NoError(t, err)
	c := &contract{T: t, Config: config, host: host, pod: newPod("pod-uid-1"), devices: map[string]bool{}}
	if config.NewMounter == nil {
		c.mounter = mounttest.NewFake(mount.Config{})
	} else {
		c.mounter = config.NewMounter(t)
	}
	c.plugin = config.New(t, host, c.mounter)
	c.mgr, err = volume.NewVolumePluginMgr(host, c.plugin)
	require.NoError(t, err)
	return c
}

func newPod(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: uid}}
}

// spec returns a new volume that is ready for pods, and sees to it that the plugin
// does not change it.
func (c *contract) spec() *volume.Spec { return c.guarded(c.Spec(c.T)) }

// guarded is spec for one that there is already.
func (c *contract) guarded(spec *volume.Spec) *volume.Spec {
	c.Helper()
	spec = c.unchanged(spec)
	c.stage(spec)
	return spec
}

func (c *contract) unchanged(spec *volume.Spec) *volume.Spec {
	before := copyOf(spec)
	c.Cleanup(func() { require.Equal(c, before, spec, "the plugin changed the specification") })
	return spec
}

func copyOf(spec *volume.Spec) *volume.Spec {
	return &volume.Spec{
		Volume:           spec.Volume.DeepCopy(),
		PersistentVolume: spec.PersistentVolume.DeepCopy(),
		ReadOnly:         spec.ReadOnly,
	}
}

func (c *contract) newMounter(spec *volume.Spec) volume.Mounter {
	c.Helper()
	mounter, err := c.plugin.NewMounter(spec, c.pod)
	require.NoError(c, err)
	return mounter
}

func (c *contract) newUnmounter(spec *volume.Spec) volume.Unmounter {
	c.Helper()
	unmounter, err := c.plugin.NewUnmounter(spec.Name(), c.pod.UID)
	require.NoError(c, err)
	return unmounter
}

// up returns a new volume that is set up.
func (c *contract) up() (*volume.Spec, volume.Mounter) {
	c.Helper()
	spec := c.spec()
	mounter := c.newMounter(spec)
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
	return spec, mounter
}

// down takes a volume down and checks that nothing is left of it.
func (c *contract) down(spec *volume.Spec) {
	c.Helper()
	unmounter := c.newUnmounter(spec)
	require.NoError(c, unmounter.TearDown(c.Context()))
	c.requireGone(unmounter.GetPath())
}

// mounting ends the test if the plugin does not mount.
func (c *contract) mounting() {
	if c.Plain {
		c.Skip("the plugin's volumes are no mounts")
	}
}

// fake returns the kernel if calls of it can be made to fail, and ends the test
// if not.
func (c *contract) fake() *mounttest.Fake {
	fake, ok := c.mounter.(*mounttest.Fake)
	if !ok {
		c.Skip("the kernel is real: it cannot be made to fail")
	}
	return fake
}

// nobodysSpecs are specifications that are nobody's.
func nobodysSpecs() map[string]*volume.Spec {
	return map[string]*volume.Spec{
		"nil":                   nil,
		"empty":                 {},
		"empty volume":          volume.NewSpecFromVolume(&v1.Volume{}),
		"empty pv":              volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{}, false),
		"nil volume":            volume.NewSpecFromVolume(nil),
		"nil persistent volume": volume.NewSpecFromPersistentVolume(nil, false),
	}
}
