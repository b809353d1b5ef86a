package contract

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// A Test is one test of the contract.
type Test func(t mounttest.T, config Config)

// Tests returns the contract's tests by name.
func Tests() map[string]Test {
	all := map[string]Test{}
	for name, test := range tests {
		all[name] = func(t mounttest.T, config Config) { test(newContract(t, config)) }
	}
	return all
}

var tests = map[string]func(*contract){
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
	"View":                  (*contract).view,
	"FsUser":                (*contract).fsUser,
	"FsGroup":               (*contract).fsGroup,
	"DesiredSize":           (*contract).desiredSize,
	"SELinuxLabel":          (*contract).seLinuxLabel,
	"Attach":                (*contract).attach,
	"AttachElsewhere":       (*contract).attachElsewhere,
	"AttachTooMany":         (*contract).attachTooMany,
	"AttachEndedContext":    (*contract).attachEndedContext,
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
	"Provision":             (*contract).provision,
	"ProvisionBad":          (*contract).provisionBad,
	"ProvisionBlock":        (*contract).provisionBlock,
	"ProvisionClasses":      (*contract).provisionClasses,
	"ProvisionEndedContext": (*contract).provisionEndedContext,
	"ProvisionOtherNode":    (*contract).provisionOtherNode,
	"DeleteForeign":         (*contract).deleteForeign,
	"ExpandStorage":         (*contract).expandStorage,
	"ExpandStorageOffline":  (*contract).expandStorageOffline,
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
	"Again":                 (*contract).repeatedCalls,
	"Remount":               (*contract).remount,
	"Target":                (*contract).target,
	"TargetBad":             (*contract).targetBad,
	"Restarts":              (*contract).restarts,
	"OwnedByThePod":         (*contract).ownedByThePod,
	"PlantedLink":           (*contract).plantedLink,
	"PlantedHardLink":       (*contract).plantedHardLink,
	"PlantedFIFO":           (*contract).plantedFIFO,
	"PlantedDirectoryLink":  (*contract).plantedDirectoryLink,
	"VerbsAtOnce":           (*contract).verbsAtOnce,
	"EveryFailure":          (*contract).everyFailure,
	"EveryHang":             (*contract).everyHang,
	"ContextEndsMeanwhile":  (*contract).contextEndsMeanwhile,
	"LeavesNothing":         (*contract).leavesNothing,
	"HostileStrings":        (*contract).hostileStringsEverywhere,
	"HostileQuantities":     (*contract).hostileQuantitiesEverywhere,
}

// A contract is one test of the contract, with a host of its own.
type contract struct {
	mounttest.T
	Config
	host    *volume.Host
	mounter mount.Interface
	plugin  volume.VolumePlugin
	mgr     *volume.VolumePluginMgr
	pod     *v1.Pod
	devices map[string]bool // the paths at which volumes are mounted for the node
}

func newContract(t mounttest.T, config Config) *contract {
	t.Helper()
	host, err := volume.NewHost(t.Context(), t.TempDir(), volume.WithNodeName("node-1"), volume.WithTargetDirs(t.TempDir()))
	require.NoError(t, err)
	c := &contract{T: t, Config: config, host: host, pod: newPod("pod-uid-1"), devices: map[string]bool{}}
	if config.NewMounter == nil {
		c.mounter = mounttest.NewFake(mount.Config{})
	} else {
		c.mounter = config.NewMounter()
	}
	c.plugin = config.New(host, c.mounter)
	c.mgr, err = volume.NewVolumePluginMgr(t.Context(), host, c.plugin)
	require.NoError(t, err)
	return c
}

func newPod(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: uid}}
}

// spec returns a new volume that is ready for pods, and verifies at the end of the test that
// the plugin has not changed it.
func (c *contract) spec() *volume.Spec { return c.guardedSpec(c.Spec()) }

// guardedSpec returns a specification for an existing volume.
func (c *contract) guardedSpec(spec *volume.Spec) *volume.Spec {
	c.Helper()
	spec = c.unchangedSpec(spec)
	c.stage(spec)
	return spec
}

func (c *contract) unchangedSpec(spec *volume.Spec) *volume.Spec {
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

// mustSetUp sets a new volume up.
func (c *contract) mustSetUp() (*volume.Spec, volume.Mounter) {
	c.Helper()
	spec := c.spec()
	mounter := c.newMounter(spec)
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
	return spec, mounter
}

// mustTearDown tears a volume down and verifies that nothing is left of it.
func (c *contract) mustTearDown(spec *volume.Spec) {
	c.Helper()
	unmounter := c.newUnmounter(spec)
	require.NoError(c, unmounter.TearDown(c.Context()))
	c.requireGone(unmounter.GetPath())
}

// requireMounts skips the test if the plugin does not mount.
func (c *contract) requireMounts() {
	if c.Plain {
		c.Skip("the plugin's volumes are no mounts")
	}
}

// fake returns the fake kernel, or nil with a real one.
func (c *contract) fake() *mounttest.Fake {
	fake, _ := mount.As[*mounttest.Fake](c.mounter)
	return fake
}

// requireFake returns the fake kernel, and skips the test with a real one.
func (c *contract) requireFake() *mounttest.Fake {
	fake := c.fake()
	if fake == nil {
		c.Skip("the kernel is real: it cannot be made to fail")
	}
	return fake
}

// unsupportedSpecs returns specifications that no plugin supports.
func unsupportedSpecs() map[string]*volume.Spec {
	return map[string]*volume.Spec{
		"nil":                   nil,
		"empty":                 {},
		"empty volume":          volume.NewSpecFromVolume(&v1.Volume{}),
		"empty pv":              volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{}, false),
		"nil volume":            volume.NewSpecFromVolume(nil),
		"nil persistent volume": volume.NewSpecFromPersistentVolume(nil, false),
	}
}
