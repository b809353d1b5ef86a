package csi

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestSteps calls the plugin at random for one volume and two pods. A seed determines the steps, and whether the
// volume is a device. The embedder keeps to the contract: it publishes a volume that it has staged, and unstages one that it has taken from all pods.
//
// The process and the driver restart between any two steps, and so does the system. The driver gains and loses the capability
// STAGE_UNSTAGE_VOLUME, and fails calls with each code before and after their effect. Files are lost, torn, of
// another volume, or replaced by those of a kubelet.
//
// No volume is published from a path at which it is not staged, none is unstaged while a pod has it, and no two
// calls are in flight. In the end the driver works: then the volume is taken from the pods and unstaged, if
// necessary after it has been brought up once more, and neither a mount nor a file is left.
func TestSteps(t *testing.T) {
	t.Setenv("TMPDIR", testbed.Memory())
	testbed.Simulation{
		Run: func(t *testing.T, seed uint64) (trace, failures []string) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				s := newSteps(t, seed)
				for range 40 {
					s.step()
				}
				s.finish()
				trace, failures = s.trace, s.failures
			})
			return trace, failures
		},
		Short: 20, Seeds: 100, Serial: true,
	}.Test(t)
}

// steps are an embedder of the plugin with one volume.
type steps struct {
	*fakeNode
	*rand.Rand
	spec   *volume.Spec
	staged bool               // the last staging has succeeded
	pods   map[types.UID]bool // that may have the volume
	boots  int

	mu              sync.Mutex      // guards the rest
	before, after   codes.Code      // of the next call of the driver
	up              map[string]bool // paths at which the driver has staged or published the volume
	trace, failures []string
}

func newSteps(t *testing.T, seed uint64) *steps {
	s := &steps{
		fakeNode: newFakeNode(t, capStage), Rand: rand.New(rand.NewPCG(seed, 2)),
		pods: map[types.UID]bool{"uid-1": false, "uid-2": false}, up: map[string]bool{},
	}
	if s.spec = s.pv("data"); s.IntN(3) == 0 {
		s.spec = s.block("data")
	}
	s.driver.set(func(d *fakeDriver) {
		d.quiet = true
		d.before = func(request proto.Message) error {
			s.check(request)
			return s.strike(request, &s.before)
		}
		d.after = func(request proto.Message) error {
			s.record(request)
			return s.strike(request, &s.after)
		}
	})
	return s
}

func (s *steps) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

func (s *steps) fail(format string, args ...any) {
	s.log("VIOLATION: "+format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

// strike fails a call with a code, once.
func (s *steps) strike(request proto.Message, code *codes.Code) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if methodOf(request) == "NodeGetCapabilities" {
		return nil
	}
	is := *code
	*code = codes.OK
	return status.Error(is, "as requested")
}

// check fails for a call that breaks a rule of the specification.
func (s *steps) check(request proto.Message) {
	s.log("  %s", methodOf(request))
	s.mu.Lock()
	up := maps.Clone(s.up)
	s.mu.Unlock()
	switch r := request.(type) {
	case *csipb.NodePublishVolumeRequest:
		if at := r.StagingTargetPath; at != "" && !up[at] {
			s.fail("published from a path at which nothing is staged")
		}
	case *csipb.NodeUnstageVolumeRequest:
		delete(up, r.StagingTargetPath)
		if len(up) > 0 {
			s.fail("unstaged while published at %v", up)
		}
	}
}

// record records the effect of a call.
func (s *steps) record(request proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := request.(type) {
	case *csipb.NodeStageVolumeRequest:
		s.up[r.StagingTargetPath] = true
	case *csipb.NodePublishVolumeRequest:
		s.up[r.TargetPath] = true
	case *csipb.NodeUnpublishVolumeRequest:
		delete(s.up, r.TargetPath)
	case *csipb.NodeUnstageVolumeRequest:
		delete(s.up, r.StagingTargetPath)
	}
}

// podOf returns a pod.
func (s *steps) podOf(uid types.UID) *v1.Pod {
	pod := s.pod.DeepCopy()
	pod.UID = uid
	return pod
}

// mapper and unmapper are those of the device.
func (s *steps) mapper(pod types.UID) volume.BlockVolumeMapper {
	m, err := s.plugin.NewBlockVolumeMapper(s.spec, s.podOf(pod))
	require.NoError(s.t, err)
	return m
}

func (s *steps) unmapper(pod types.UID) volume.BlockVolumeUnmapper {
	u, err := s.plugin.NewBlockVolumeUnmapper("data", pod)
	require.NoError(s.t, err)
	return u
}

// dataFiles returns the files of the volume: that of the staging, and those of the pods.
func (s *steps) dataFiles() []string {
	root := s.host.Root()
	if s.spec.IsBlock() {
		dir := root + "/plugins/kubernetes.io/csi/volumeDevices/data/data/"
		return []string{dir + "vol_data.json", dir + "publish-uid-1.json", dir + "publish-uid-2.json"}
	}
	names := []string{filepath.Dir(s.stagePath(s.spec)) + "/vol_data.json"}
	for _, pod := range []string{"uid-1", "uid-2"} {
		names = append(names, root+"/pods/"+pod+"/volumes/kubernetes.io~csi/data/vol_data.json")
	}
	return names
}

func (s *steps) step() {
	pod := types.UID(fmt.Sprint("uid-", 1+s.IntN(2)))
	switch n := s.IntN(100); {
	case n < 20:
		s.mountDevice()
	case n < 45:
		s.publish(pod)
	case n < 60:
		s.unpublish(pod)
	case n < 70:
		s.unmountDevice()
	case n < 74:
		s.log("restart")
		s.restartNode()
	case n < 77:
		s.log("restart of the driver")
		s.driver.restart()
	case n < 81:
		s.changeCapabilities()
	case n < 92:
		s.disturb()
	case n < 95:
		s.reboot()
	default:
		s.damage()
	}
}

// isToBeStaged reports whether the embedder has to stage the volume before it publishes it.
func (s *steps) isToBeStaged() bool {
	if s.spec.IsBlock() {
		return true
	}
	able, err := s.plugin.CanDeviceMount(context.Background(), s.spec)
	return err != nil || able
}

// mountDevice stages the volume, if the driver does.
func (s *steps) mountDevice() {
	var err error
	switch {
	case s.spec.IsBlock():
		_, err = s.mapper("uid-1").SetUpDevice(context.Background(), volume.BlockVolumePaths{})
	case s.isToBeStaged():
		err = s.stage(s.spec, volume.DeviceMounterArgs{})
	}
	s.staged = err == nil
	s.log("stage: %v", err)
}

// publish publishes the volume to a pod, if it is staged or needs no staging.
func (s *steps) publish(pod types.UID) {
	if s.isToBeStaged() && !s.staged {
		return
	}
	isRemount := s.pods[pod]
	s.pods[pod] = true
	var err error
	if s.spec.IsBlock() {
		_, err = s.mapper(pod).MapPodDevice(context.Background(), volume.BlockVolumePaths{})
	} else {
		m, failed := s.plugin.NewMounter(s.spec, s.podOf(pod))
		require.NoError(s.t, failed)
		err = m.SetUp(context.Background(), volume.MounterArgs{IsRemount: isRemount})
	}
	s.log("publish %s: %v", pod, err)
}

func (s *steps) unpublish(pod types.UID) {
	var err error
	if s.spec.IsBlock() {
		err = s.unmapper(pod).UnmapPodDevice(context.Background())
	} else {
		u, failed := s.plugin.NewUnmounter("data", pod)
		require.NoError(s.t, failed)
		err = u.TearDown(context.Background())
	}
	if err == nil {
		s.pods[pod] = false
	}
	s.log("unpublish %s: %v", pod, err)
}

// unmountDevice unstages the volume, if no pod may have it, and reports whether nothing is staged.
func (s *steps) unmountDevice() bool {
	if s.pods["uid-1"] || s.pods["uid-2"] {
		return false
	}
	s.staged = false
	var err error
	if s.spec.IsBlock() {
		at, failed := s.unmapper("uid-1").GetGlobalMapPath(s.spec)
		require.NoError(s.t, failed)
		err = s.unmapper("uid-1").TearDownDevice(context.Background(), volume.BlockVolumePaths{GlobalMapPath: at})
	} else {
		err = s.unstage(s.stagePath(s.spec))
	}
	s.log("unstage: %v", err)
	return err == nil
}

// restartNode restarts the process.
func (s *steps) restartNode() {
	s.restart()
	s.plugin.boot = fmt.Sprint("boot-", s.boots)
}

// changeCapabilities lets another version of the driver register.
func (s *steps) changeCapabilities() {
	var caps []rpc
	if s.IntN(2) == 0 {
		caps = []rpc{capStage}
	}
	s.log("capabilities %v", caps)
	s.register(caps...)
}

func (s *steps) register(caps ...rpc) {
	s.driver.set(func(d *fakeDriver) { d.caps = caps })
	s.fakeNode.mu.Lock()
	defer s.fakeNode.mu.Unlock()
	s.registration++
}

// disturb fails the next call of the driver. A call for a device that takes effect has an unknown outcome: no mount
// disproves another answer.
func (s *steps) disturb() {
	code, after := codes.Code(1+s.IntN(int(codes.Unauthenticated))), s.IntN(2) == 0
	if after && s.spec.IsBlock() {
		code = []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted}[s.IntN(5)]
	}
	s.mu.Lock()
	if after {
		s.after = code
	} else {
		s.before = code
	}
	s.mu.Unlock()
	s.log("the next call is %v, after its effect: %t", code, after)
}

// reboot ends all mounts. Files stay, also the empty one at the path of a device.
func (s *steps) reboot() {
	s.log("reboot")
	for _, at := range s.mounts() {
		require.NoError(s.t, s.mounter.Unmount(context.Background(), at))
	}
	s.mu.Lock()
	clear(s.up)
	s.mu.Unlock()
	s.staged = false
	s.boots++
	s.restartNode()
}

// mounts returns the mount points of the volume, the last one first.
func (s *steps) mounts() (at []string) {
	table, err := s.mounter.List(context.Background())
	require.NoError(s.t, err)
	for _, m := range slices.Backward(table) {
		if strings.HasPrefix(m.Mountpoint, s.host.Root()+"/") {
			at = append(at, m.Mountpoint)
		}
	}
	return at
}

// damage changes a file behind the plugin, as a loss of power and other programs do.
func (s *steps) damage() {
	names := s.dataFiles()
	file := names[s.IntN(len(names))]
	text, err := os.ReadFile(file)
	if err != nil {
		return
	}
	texts := []string{
		"", string(text[:s.IntN(len(text)+1)]), strings.Repeat("\x00", len(text)), strings.ReplaceAll(string(text), "handle-of-data", "another"),
		`{"driverName":"one.example.com","nodeName":"node-1","specVolID":"data","volumeHandle":"handle-of-data","volumeLifecycleMode":"Persistent"}`,
	}
	n := s.IntN(len(texts) + 1)
	s.log("damage %s: %d", strings.TrimPrefix(file, s.host.Root()), n)
	if n == len(texts) {
		require.NoError(s.t, os.Remove(file))
		return
	}
	require.NoError(s.t, os.WriteFile(file, []byte(texts[n]), 0o600))
}

// finish takes the volume down with a driver that works, and checks that nothing is left.
func (s *steps) finish() {
	s.log("calm")
	s.mu.Lock()
	s.before, s.after = codes.OK, codes.OK
	s.mu.Unlock()
	s.register(capStage)
	isDown := false
	for range 10 {
		for _, pod := range slices.Sorted(maps.Keys(s.pods)) {
			s.unpublish(pod)
		}
		if isDown = s.unmountDevice(); isDown {
			break
		}
		s.mountDevice()
		for _, pod := range slices.Sorted(maps.Keys(s.pods)) {
			if s.pods[pod] {
				s.publish(pod)
			}
		}
	}
	if !isDown {
		s.fail("the volume does not go down")
	}
	for _, at := range s.mounts() {
		s.fail("%s is left", at)
	}
	for _, name := range s.files() {
		if base := filepath.Base(name); slices.Contains([]string{"vol_data.json", "globalmount", "mount", "data"}, base) {
			s.fail("%s is left", name)
		}
	}
	s.driver.set(func(d *fakeDriver) {
		if d.overlap {
			s.fail("two calls were in flight")
		}
	})
}
