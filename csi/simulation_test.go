package csi_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestSimulation runs the manager and the plugin with two drivers in memory, on a simulated kernel, in a
// bubble of testing/synctest. A seed determines the steps and the faults.
//
// One driver attaches, stages and expands; it has mounted volumes, a block volume, and one for one pod
// at a time. The other one only publishes; it has a persistent volume, which it publishes again each
// five minutes, and inline volumes.
//
// Steps: pods come and go, and come again under the name; a claim grows; time passes; the node's process
// is killed at once, or at one of its next calls of a driver, before or after its effect, and starts
// again on the files of that instant; drivers end and start again, also unregistered for a while.
//
// Faults: calls fail with each gRPC code, before and after their effect, hang until the client gives up
// or for longer than that, kill the driver, or return sizes and conditions that cannot be.
//
// After each step the drivers have seen no broken rule of the specification (csitest.Rule), and the
// manager misses no mount. At the end
// faults stop. Within an hour all volumes of all pods are up. After the last pod nothing is staged,
// published or mounted, and no file of a volume is left.
//
// VOLUMEKIT_SEEDS is the number of seeds to run, or their range (as 1000-2000); VOLUMEKIT_SEED is a
// seed to replay with its trace. The order of goroutines is not part of a seed: a failure may take
// several runs (-count) to appear again.
func TestSimulation(t *testing.T) {
	percent := debug.SetGCPercent(800) // bubbles are short-lived garbage
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	testbed.Simulation{
		Run: func(t *testing.T, seed uint64) (trace, failures []string) {
			s := simulate(t, seed)
			return s.trace, s.failures
		},
		Short: 20, Seeds: 100,
	}.Test(t)
}

// The drivers of a simulation.
const (
	simStager    = "stager.example.com"
	simPublisher = "publisher.example.com"
)

// A simulation is a node as a test changes it.
type simulation struct {
	*testing.T
	*rand.Rand
	root    string
	kernel  *mounttest.Fake
	began   time.Time
	drivers map[string]*simDriver
	source  *simSource
	process *simProcess
	created int // pods

	mu       sync.Mutex
	trace    []string
	failures []string
}

// A simDriver is a driver with its registration.
type simDriver struct {
	*csitest.Driver
	registration atomic.Uint64
	unregistered atomic.Bool
	seen         int // violations
}

// simulate runs a seed in a bubble of its own.
func simulate(t *testing.T, seed uint64) (s *simulation) {
	root := simRoot(t)
	defer func() { require.NoError(t, os.RemoveAll(root)) }()
	synctest.Test(t, func(t *testing.T) {
		s = newSimulation(t, seed, root)
		s.start()
		for range 20 + s.IntN(40) {
			s.step()
			if s.IntN(3) > 0 { // otherwise the next step happens at the same time
				synctest.Wait()
			}
			if s.check(); s.hasFailed() {
				break
			}
		}
		if !s.hasFailed() {
			s.converge()
		}
		s.process.kill()
		s.process.reap()
		for _, d := range s.drivers {
			d.ClearFaults()
			d.Crash()
		}
	})
	return s
}

// simRoot returns a new directory, in memory if possible.
func simRoot(t *testing.T) string {
	root, err := os.MkdirTemp(testbed.Memory(), "csi")
	require.NoError(t, err)
	root, err = filepath.EvalSymlinks(root)
	require.NoError(t, err)
	return root
}

func newSimulation(t *testing.T, seed uint64, root string) *simulation {
	s := &simulation{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), root: root, began: time.Now(), kernel: mounttest.NewFake(mount.Config{})}
	node := func(all ...csipb.NodeServiceCapability_RPC_Type) []csipb.NodeServiceCapability_RPC_Type { return all }
	s.drivers = map[string]*simDriver{
		simStager: {Driver: csitest.NewDriver(csitest.Config{Name: simStager, Mounter: s.kernel, Capabilities: csitest.Capabilities{
			Plugin:     []csipb.PluginCapability_Service_Type{csipb.PluginCapability_Service_CONTROLLER_SERVICE},
			Controller: []csipb.ControllerServiceCapability_RPC_Type{csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME},
			Node: node(csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME,
				csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS, csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER),
		}})},
		simPublisher: {Driver: csitest.NewDriver(csitest.Config{Name: simPublisher, Mounter: s.kernel, Capabilities: csitest.Capabilities{
			Node: node(csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP, condition.Capability),
		}})},
	}
	for _, d := range s.drivers {
		d.registration.Store(1)
	}
	s.source = newSimSource(s)
	return s
}

// log adds a line to the trace. Lines of the manager begin with two spaces.
func (s *simulation) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = append(s.trace, time.Since(s.began).Round(time.Millisecond).String()+" "+fmt.Sprintf(format, args...))
}

func (s *simulation) fail(format string, args ...any) {
	s.log("  VIOLATION: "+format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

func (s *simulation) hasFailed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failures) > 0
}

func (s *simulation) driverNames() []string { return slices.Sorted(maps.Keys(s.drivers)) }

// check fails for each rule that the node has broken.
func (s *simulation) check() {
	for _, name := range s.driverNames() {
		d := s.drivers[name]
		all := d.Violations()
		for _, violation := range all[d.seen:] {
			s.fail("%s: %v", name, violation)
		}
		d.seen = len(all)
	}
}

// converge ends the faults, waits until all volumes are up, deletes all pods, and checks that nothing is
// left.
func (s *simulation) converge() {
	s.log("calm")
	s.process.killIn.Store(0)
	for _, name := range s.driverNames() {
		s.drivers[name].ClearFaults()
		s.startDriver(name)
	}
	synctest.Wait() // for the last call before a kill
	s.restartIfKilled()
	for _, pod := range s.source.all() {
		ctx, cancel := context.WithTimeout(s.Context(), time.Hour)
		if err := s.process.manager.WaitForAttachAndMount(ctx, pod); err != nil && !s.isShut(pod) {
			s.fail("after an hour without faults: %v", err)
		}
		cancel()
	}
	if s.check(); s.hasFailed() {
		return
	}
	s.source.clear()
	s.log("no pods")
	time.Sleep(time.Hour)
	synctest.Wait()
	s.check()
	s.checkNothingLeft()
}

// isShut reports whether a pod waits for a volume that another pod has for itself.
func (s *simulation) isShut(pod *v1.Pod) bool {
	for _, other := range s.source.all() {
		if other.UID != pod.UID && usesClaim(pod, simOnePod) && usesClaim(other, simOnePod) {
			return true
		}
	}
	return false
}

// checkNothingLeft fails for each volume, mount and file that is left.
func (s *simulation) checkNothingLeft() {
	for _, name := range s.driverNames() {
		for _, v := range s.drivers[name].Volumes() {
			if len(v.Staged)+len(v.Published) > 0 { // a controller detaches
				s.fail("left by driver %s: %+v", name, v)
			}
		}
	}
	table, err := s.kernel.List(s.Context())
	if err != nil || len(table) != 1 {
		s.fail("mounts are left: %v, %v", table, err)
	}
	for name := range s.files() {
		if strings.Contains(name, "kubernetes.io") {
			s.fail("%s is left", name)
		}
	}
}

// simLink begins the content of a symbolic link.
const simLink = "link to "

// files returns the contents of the files that the node writes below the root: JSON and symbolic links.
func (s *simulation) files() map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(s.root, func(name string, entry os.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		if entry.Type()&os.ModeSymlink != 0 {
			target, err := os.Readlink(name)
			if err == nil {
				all[name] = simLink + target
			}
			return ignoreMissing(err)
		}
		if !entry.Type().IsRegular() || !strings.HasSuffix(name, ".json") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err == nil {
			all[name] = string(text)
		}
		return ignoreMissing(err)
	})
	if err != nil {
		s.fail("read the files: %v", err)
	}
	return all
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

var simYes = true

// simObjects are the CSIDriver objects.
type simObjects struct{}

func (simObjects) GetCSIDriver(_ context.Context, name string) (*storagev1.CSIDriver, error) {
	object := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if name == simStager {
		return object, nil
	}
	no := false
	object.Spec.AttachRequired, object.Spec.RequiresRepublish, object.Spec.PodInfoOnMount = &no, &simYes, &simYes
	object.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
	object.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
	return object, nil
}

// A simAttacher attaches at once. It detaches when the node releases a volume.
type simAttacher struct{ s *simulation }

func (a simAttacher) WaitForAttachment(_ context.Context, driver, handle string) (map[string]string, error) {
	metadata := map[string]string{"device": "/dev/" + handle}
	a.s.drivers[driver].Attach(handle, "node", metadata)
	return metadata, nil
}

func (a simAttacher) IsAttached(driver, handle string) (attached, known bool) {
	for _, v := range a.s.drivers[driver].Volumes() {
		if v.ID == handle {
			return len(v.Attached) > 0, true
		}
	}
	return false, true
}

func (a simAttacher) ReleaseAttachment(driver, handle string) {
	a.s.log("  release %s", handle)
	a.s.drivers[driver].Detach(handle, "node")
}

// event records an event of the manager.
func (s *simulation) event(e manager.Event) {
	if e.Reason == manager.VolumeVanished { // nothing unmounts a volume but the drivers, when they are called
		s.fail("%s: %s", e.Unique, firstLine(e.Message))
	}
	s.log("  event %s %s %s %s", e.Reason, e.PodUID, e.Unique, firstLine(e.Message))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), 300)]
}

func usesClaim(pod *v1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}
