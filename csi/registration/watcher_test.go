package registration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	storagev1 "k8s.io/api/storage/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/internal/dirwatch"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
)

// TestBothSides: a driver that Serve registers is found by its name, and is in the cluster, until
// Serve ends.
func TestBothSides(t *testing.T) {
	w := newWorld(t)
	var changes atomic.Int32
	watcher, _ := w.watch(func(c *Config) { c.Changed = func(string) { changes.Add(1) } })
	_, ok := watcher.Driver(driverName)
	require.False(t, ok)
	endpoint := w.driver("node-1")
	var registered atomic.Int32
	stop := w.serve(endpoint, func(c *ServerConfig) { c.Registered = func() { registered.Add(1) } })
	w.waitUntil(func() bool { return registered.Load() == 1 })
	driver, ok := watcher.Driver(driverName)
	require.True(t, ok)
	require.Equal(t, csi.Driver{Name: driverName, Endpoint: endpoint, NodeID: "node-1", Registration: driver.Registration}, driver)
	require.NotZero(t, driver.Registration)
	limit := int32(7)
	w.cluster.mu.Lock()
	require.Equal(t, map[string]storagev1.CSINodeDriver{driverName: {
		Name: driverName, NodeID: "node-1", TopologyKeys: []string{"example.com/rack", "example.com/zone"},
		Allocatable: &storagev1.VolumeNodeResources{Count: &limit},
	}}, w.cluster.drivers)
	require.Equal(t, map[string]string{"example.com/zone": "z1", "example.com/rack": "r1"}, w.cluster.labels)
	w.cluster.mu.Unlock()
	require.EqualValues(t, 1, changes.Load())

	stop()
	entries, err := os.ReadDir(w.sockets)
	require.NoError(t, err)
	require.Empty(t, entries)
	w.waitUntil(func() bool { return w.cluster.nodeID(driverName) == "" })
	_, ok = watcher.Driver(driverName)
	require.False(t, ok)
	require.EqualValues(t, 2, changes.Load())
}

// TestExistingSocketsAreRegistered: a new watcher registers the drivers that an earlier one had, and
// the end of a watcher unregisters no driver from the cluster.
func TestExistingSocketsAreRegistered(t *testing.T) {
	w := newWorld(t)
	var registered atomic.Int32
	w.serve(w.driver("node-1"), func(c *ServerConfig) { c.Registered = func() { registered.Add(1) } })
	for i := range 3 {
		watcher, stop := w.watch()
		w.waitUntil(func() bool { return registered.Load() == int32(i+1) })
		stop()
		_, ok := watcher.Driver(driverName)
		require.True(t, ok, "the last state remains")
		require.Equal(t, "node-1", w.cluster.nodeID(driverName))
	}
	watcher, err := New(Config{Dir: w.sockets})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, watcher.Run(ctx))
	require.ErrorIs(t, watcher.Run(ctx), errRanBefore)
}

// TestReplacedSocketIsRegisteredAgain: a socket that replaces one of its name is a new registration, by
// a rename as well as after a removal, as often as that happens.
func TestReplacedSocketIsRegisteredAgain(t *testing.T) {
	for name, polled := range map[string]bool{"watched": false, "polled": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			watcher, err := New(Config{Dir: w.sockets, Node: w.cluster, Poll: time.Millisecond})
			require.NoError(t, err)
			if polled {
				watcher.watchDir = func(context.Context, string, dirwatch.Func) error { return errors.ErrUnsupported }
			}
			w.run(watcher.Run)
			last := uint64(0)
			stop := func() {}
			for i := range 5 {
				id := fmt.Sprint("node-", i)
				registered := make(chan struct{}, 10)
				next := w.serve(w.driver(id), func(c *ServerConfig) { c.Registered = func() { registered <- struct{}{} } })
				stop() // leaves the new socket alone
				<-registered
				w.waitUntil(func() bool { return w.cluster.nodeID(driverName) == id })
				driver := w.waitFor(watcher, driverName)
				require.Equal(t, id, driver.NodeID)
				require.Greater(t, driver.Registration, last)
				last, stop = driver.Registration, next
			}
			stop()
			w.waitUntil(func() bool { return w.cluster.nodeID(driverName) == "" })
		})
	}
}

// TestRecreatedSocketOfOneDriver: the removal and the creation of a socket between two scans are a new
// registration.
func TestRecreatedSocketOfOneDriver(t *testing.T) {
	w := newWorld(t)
	watcher, _ := w.watch()
	endpoint := w.driver("node-1")
	last := uint64(0)
	for range 20 {
		registered := make(chan struct{}, 10)
		stop := w.serve(endpoint, func(c *ServerConfig) { c.Registered = func() { registered <- struct{}{} } })
		<-registered
		driver, ok := watcher.Driver(driverName)
		require.True(t, ok)
		require.Greater(t, driver.Registration, last)
		last = driver.Registration
		stop()
	}
}

// TestReturnedSocketIsRegisteredAgain: a socket that has left the directory and returned is a new
// registration, also if it is the same file as before: so is a new file with the number of the old one.
func TestReturnedSocketIsRegisteredAgain(t *testing.T) {
	w := newWorld(t)
	w.watch()
	r, _ := w.registrar("a.sock", info(w.driver("node-1")))
	at, outside := filepath.Join(w.sockets, "a.sock"), filepath.Join(w.dir, "outside")
	for range 20 {
		require.True(t, (<-r.status).PluginRegistered)
		require.NoError(t, errors.Join(os.Rename(at, outside), os.Rename(outside, at)))
	}
}

// TestNewestSocketWins: of two sockets with one driver the newer one counts, and after its removal the
// older one; the entry in the cluster does not vanish in between.
func TestNewestSocketWins(t *testing.T) {
	w := newWorld(t)
	watcher, _ := w.watch()
	old, stopOld := w.registrar("z-old.sock", info(w.driver("old")))
	require.True(t, (<-old.status).PluginRegistered)
	first := w.waitFor(watcher, driverName)
	newer, stopNew := w.registrar("a-new.sock", info(w.driver("new")))
	require.True(t, (<-newer.status).PluginRegistered)
	second := w.waitFor(watcher, driverName)
	require.Equal(t, "new", second.NodeID)
	require.Equal(t, "new", w.cluster.nodeID(driverName))
	stopNew()
	w.waitUntil(func() bool { return w.cluster.nodeID(driverName) == "old" })
	third := w.waitFor(watcher, driverName)
	require.Equal(t, "old", third.NodeID)
	require.Less(t, first.Registration, second.Registration)
	require.Less(t, second.Registration, third.Registration)
	w.cluster.mu.Lock()
	require.Equal(t, []string{"put old", "put new", "put old"}, w.cluster.writes)
	w.cluster.mu.Unlock()
	stopOld()
	w.waitUntil(func() bool { return w.cluster.nodeID(driverName) == "" })

	// The removal of the older one changes nothing.
	_, stopOld = w.registrar("z-old.sock", info(w.driver("old-2")))
	w.waitUntil(func() bool { return w.cluster.nodeID(driverName) == "old-2" })
	w.registrar("a-new.sock", info(w.driver("new-2")))
	w.waitUntil(func() bool { return w.cluster.nodeID(driverName) == "new-2" })
	writes := w.cluster.count()
	stopOld()
	w.waitUntil(func() bool { return w.cluster.count() > writes })
	require.Equal(t, "new-2", w.cluster.nodeID(driverName))
}

// TestHostileRegistrars: the registrar gets the reason, and the driver is not registered, nor is
// another driver delayed.
func TestHostileRegistrars(t *testing.T) {
	w := newWorld(t)
	good := w.driver("good")
	regular := filepath.Join(w.dir, "regular")
	require.NoError(t, os.WriteFile(regular, nil, 0o600))
	type change = func(*registerapi.PluginInfo)
	tests := map[string]struct {
		change change
		reason string
	}{
		"no type":            {func(i *registerapi.PluginInfo) { i.Type = "" }, "type must be CSIPlugin"},
		"device plugin":      {func(i *registerapi.PluginInfo) { i.Type = registerapi.DevicePlugin }, "type must be CSIPlugin"},
		"no name":            {func(i *registerapi.PluginInfo) { i.Name = "" }, "must be a DNS subdomain"},
		"path":               {func(i *registerapi.PluginInfo) { i.Name = "../etc" }, "must be a DNS subdomain"},
		"dots":               {func(i *registerapi.PluginInfo) { i.Name = ".." }, "must be a DNS subdomain"},
		"blank":              {func(i *registerapi.PluginInfo) { i.Name = "a b" }, "must be a DNS subdomain"},
		"lines":              {func(i *registerapi.PluginInfo) { i.Name = "a\nb" }, "must be a DNS subdomain"},
		"no ASCII":           {func(i *registerapi.PluginInfo) { i.Name = "\u212Aelvin" }, "must be a DNS subdomain"},
		"long name":          {func(i *registerapi.PluginInfo) { i.Name = strings.Repeat("a", 64) }, "at most 63 bytes"},
		"huge name":          {func(i *registerapi.PluginInfo) { i.Name = strings.Repeat("a", 1<<20) }, "at most 63 bytes"},
		"no versions":        {func(i *registerapi.PluginInfo) { i.SupportedVersions = nil }, "must contain one of 1.x"},
		"version 0":          {func(i *registerapi.PluginInfo) { i.SupportedVersions = []string{"0.3.0"} }, "must contain one of 1.x"},
		"version 2":          {func(i *registerapi.PluginInfo) { i.SupportedVersions = []string{"2.0.0"} }, "must contain one of 1.x"},
		"no version":         {func(i *registerapi.PluginInfo) { i.SupportedVersions = []string{"latest", "1"} }, "must contain one of 1.x"},
		"relative endpoint":  {func(i *registerapi.PluginInfo) { i.Endpoint = "csi.sock" }, "must be an absolute path"},
		"URL":                {func(i *registerapi.PluginInfo) { i.Endpoint = "unix://" + good }, "must be an absolute path"},
		"endpoint with dots": {func(i *registerapi.PluginInfo) { i.Endpoint = w.dir + "/x/../good.sock" }, "must be a path without"},
		"long endpoint":      {func(i *registerapi.PluginInfo) { i.Endpoint = "/" + strings.Repeat("a", 1<<20) }, "at most 107 bytes"},
		"endpoint with NUL":  {func(i *registerapi.PluginInfo) { i.Endpoint = "/a\x00" }, "must have no NUL"},
		"no socket":          {func(i *registerapi.PluginInfo) { i.Endpoint = regular }, "must be a socket"},
		"directory":          {func(i *registerapi.PluginInfo) { i.Endpoint = w.dir }, "must be a socket"},
		"missing endpoint":   {func(i *registerapi.PluginInfo) { i.Endpoint = good + "x" }, "no such file"},
	}
	watcher, _ := w.watch()
	registrars := map[string]*testRegistrar{}
	for name, test := range tests {
		answer := info(good)
		answer.Name = "bad.example"
		test.change(answer)
		registrars[name], _ = w.registrar(fmt.Sprint(len(registrars), ".sock"), answer)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second attempt comes after a pause
				result := <-registrars[name].status
				require.False(t, result.PluginRegistered)
				require.Contains(t, result.Error, test.reason)
				require.LessOrEqual(t, len(result.Error), 1024)
			}
		})
	}
	w.serve(good)
	w.waitFor(watcher, driverName)
	for _, name := range []string{"bad.example", "", "..", "../etc"} {
		_, ok := watcher.Driver(name)
		require.False(t, ok)
	}
}

// An encodedInfo is the encoded answer of a registrar: later versions of the API refuse to encode invalid
// UTF-8. Other messages have no fields.
type encodedInfo string

func (encodedInfo) Name() string                { return "proto" }
func (encodedInfo) Unmarshal([]byte, any) error { return nil }

func (e encodedInfo) Marshal(message any) ([]byte, error) {
	if _, ok := message.(*registerapi.PluginInfo); ok {
		return []byte(e), nil
	}
	return nil, nil
}

// TestInvalidTextOfRegistrar: a name of invalid UTF-8 is refused, or cannot be decoded with later versions of
// the API; the answer is read again.
func TestInvalidTextOfRegistrar(t *testing.T) {
	w := newWorld(t)
	watcher, _ := w.watch()
	good := w.driver("good")
	text := ""
	for number, value := range []string{registerapi.CSIPlugin, "a\xff", good, "1.0.0"} {
		text += string([]byte{byte(number+1)<<3 | 2, byte(len(value))}) + value
	}
	var calls atomic.Int32
	r := &countingRegistrar{testRegistrar{info: &registerapi.PluginInfo{}}, &calls}
	w.serveGRPC(filepath.Join(w.sockets, "bad.sock"), func(s *grpc.Server) { registerapi.RegisterRegistrationServer(s, r) },
		grpc.ForceServerCodec(encodedInfo(text)))
	w.waitUntil(func() bool { return calls.Load() > 2 })
	for _, name := range []string{"a\xff", "a\uFFFD", "a", ""} {
		_, ok := watcher.Driver(name)
		require.False(t, ok)
	}
	w.serve(good)
	w.waitFor(watcher, driverName)
}

// TestAcceptedRegistrars: answers that the kubelet accepts are accepted.
func TestAcceptedRegistrars(t *testing.T) {
	for name, change := range map[string]func(*registerapi.PluginInfo){
		"several versions": func(i *registerapi.PluginInfo) { i.SupportedVersions = []string{"2.1.0", "v1.5.0", "0.3.0", "x"} },
		"upper case":       func(i *registerapi.PluginInfo) { i.Name = "Test.CSI.example" },
		"longest name":     func(i *registerapi.PluginInfo) { i.Name = strings.Repeat("a", 63) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			watcher, _ := w.watch()
			answer := info(w.driver("node-1"))
			change(answer)
			r, _ := w.registrar("a.sock", answer)
			require.True(t, (<-r.status).PluginRegistered)
			w.waitFor(watcher, answer.Name)
		})
	}
}

// TestDriverOnTheRegistrationSocket: without an endpoint the driver serves beside its registrar.
func TestDriverOnTheRegistrationSocket(t *testing.T) {
	w := newWorld(t)
	watcher, _ := w.watch()
	path := filepath.Join(w.sockets, "a.sock")
	c, err := checkInfo(info(""), path)
	require.NoError(t, err)
	require.Equal(t, path, c.endpoint)
	r, _ := w.registrar("a.sock", info(""))
	require.Contains(t, (<-r.status).Error, "Unimplemented", "no Node service")
	_, ok := watcher.Driver(driverName)
	require.False(t, ok)
}

// TestHostileDrivers: invalid answers of NodeGetInfo.
func TestHostileDrivers(t *testing.T) {
	segments := func(key, value string) *csipb.NodeGetInfoResponse {
		return &csipb.NodeGetInfoResponse{NodeId: "n", AccessibleTopology: &csipb.Topology{Segments: map[string]string{key: value}}}
	}
	many := segments("a", "b")
	for n := range 64 {
		many.AccessibleTopology.Segments[fmt.Sprintf("example.com/%d", n)] = "b"
	}
	for name, test := range map[string]struct {
		answer *csipb.NodeGetInfoResponse
		err    error
		reason string
	}{
		"no ID":         {&csipb.NodeGetInfoResponse{}, nil, "node ID"},
		"long ID":       {&csipb.NodeGetInfoResponse{NodeId: strings.Repeat("n", 257)}, nil, "node ID"},
		"negative":      {&csipb.NodeGetInfoResponse{NodeId: "n", MaxVolumesPerNode: -1}, nil, "at least 0"},
		"invalid key":   {segments("a b", "c"), nil, "must be a valid label"},
		"empty key":     {segments("", "c"), nil, "must be a valid label"},
		"path":          {segments("../../x", "c"), nil, "must be a valid label"},
		"invalid value": {segments("a", "b/c"), nil, "must be a valid label"},
		"huge value":    {segments("a", strings.Repeat("c", 1<<20)), nil, "must be a valid label"},
		"many segments": {many, nil, "at most 64 segments"},
		"error":         {nil, status.Error(codes.Internal, "no\nmetadata"), "NodeGetInfo test.csi.example: Internal: no metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			watcher, _ := w.watch()
			endpoint := w.serveDriver("csi.sock", &testDriver{answer: func(context.Context) (*csipb.NodeGetInfoResponse, error) {
				return test.answer, test.err
			}})
			r, _ := w.registrar("a.sock", info(endpoint))
			result := <-r.status
			require.False(t, result.PluginRegistered)
			require.Contains(t, result.Error, test.reason)
			require.LessOrEqual(t, len(result.Error), 1024)
			_, ok := watcher.Driver(driverName)
			require.False(t, ok)
			require.Zero(t, w.cluster.count())
		})
	}
	info, err := checkNodeInfo(&csipb.NodeGetInfoResponse{NodeId: "n", MaxVolumesPerNode: math.MaxInt64})
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt32, *info.entry("a").Allocatable.Count)
}

// TestDriverThatComesLate: a driver that does not answer yet is registered when it does.
func TestDriverThatComesLate(t *testing.T) {
	w := newWorld(t)
	watcher, _ := w.watch()
	r, _ := w.registrar("a.sock", info(filepath.Join(w.dir, "node-1.sock")))
	require.Contains(t, (<-r.status).Error, "no such file")
	w.driver("node-1")
	w.waitUntil(func() bool { return (<-r.status).PluginRegistered })
	w.waitFor(watcher, driverName)
}

// TestHangingDriversDelayNoOther: neither a registrar nor a driver that does not answer.
func TestHangingDriversDelayNoOther(t *testing.T) {
	w := newWorld(t)
	hanging := make(chan struct{}, 100)
	endpoint := w.serveDriver("hang.sock", &testDriver{answer: func(ctx context.Context) (*csipb.NodeGetInfoResponse, error) {
		hanging <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	for i := range 8 {
		w.serveRegistrar(fmt.Sprintf("a%d.sock", i), &testRegistrar{block: true})
		answer := info(endpoint)
		answer.Name = fmt.Sprintf("hang%d.example", i)
		w.registrar(fmt.Sprintf("b%d.sock", i), answer)
	}
	watcher, stop := w.watch()
	for range 8 {
		<-hanging
	}
	w.serve(w.driver("node-1"))
	w.waitFor(watcher, driverName)
	w.waitUntil(func() bool { return w.cluster.nodeID(driverName) == "node-1" })
	stop()
}

// TestHangingRegistrarIsCalledAgain: after the timeout.
func TestHangingRegistrarIsCalledAgain(t *testing.T) {
	w := newWorld(t)
	var calls atomic.Int32
	r := &countingRegistrar{testRegistrar{block: true}, &calls}
	w.serveRegistrar("a.sock", r)
	w.watch(func(c *Config) { c.Timeout = 10 * time.Millisecond })
	w.waitUntil(func() bool { return calls.Load() >= 3 })
}

type countingRegistrar struct {
	testRegistrar
	calls *atomic.Int32
}

func (r *countingRegistrar) GetInfo(ctx context.Context, request *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	r.calls.Add(1)
	return r.testRegistrar.GetInfo(ctx, request)
}

// TestIgnoredEntries: hidden names, other files and symbolic links are ignored; sockets in directories
// are not.
func TestIgnoredEntries(t *testing.T) {
	w := newWorld(t)
	endpoint := w.driver("node-1")
	at := func(name string) string { return filepath.Join(w.sockets, name) }
	outside := filepath.Join(w.dir, "outside")
	require.NoError(t, errors.Join(os.Mkdir(outside, 0o755), os.WriteFile(at("file.sock"), nil, 0o600),
		os.MkdirAll(at("dir/below"), 0o755), os.MkdirAll(at(".hidden"), 0o755), os.MkdirAll(at("1/2/3/4"), 0o755),
		os.Symlink(outside, at("link")), os.Symlink(outside+"/o.sock", at("link.sock")), os.Symlink("loop", at("loop"))))
	named := func(name string) *registerapi.PluginInfo {
		answer := info(endpoint)
		answer.Name = name
		return answer
	}
	w.registrar(".a.sock", named("hidden"))
	w.registrar(".hidden/a.sock", named("hidden-dir"))
	w.registrar("../outside/o.sock", named("outside"))
	w.registrar("1/2/3/4/a.sock", named("deep"))
	w.registrar("dir/below/a.sock", named("below"))
	watcher, _ := w.watch()
	w.waitFor(watcher, "below")
	require.NoError(t, os.Mkdir(at("later"), 0o755))
	_, stop := w.registrar("later/a.sock", named("later"))
	w.waitFor(watcher, "later")
	stop()
	w.waitUntil(func() bool {
		_, ok := watcher.Driver("later")
		return !ok
	})
	require.NoError(t, os.Rename(at(".a.sock"), at("a.sock")))
	w.waitFor(watcher, "hidden")
	for _, name := range []string{"hidden-dir", "outside", "deep"} {
		_, ok := watcher.Driver(name)
		require.False(t, ok, name)
	}
	l, err := list(w.sockets)
	require.NoError(t, err)
	require.Len(t, l.sockets, 2)
}

// TestDirectoryIsRecreated: drivers are unregistered with their directory, and registered in a new one.
func TestDirectoryIsRecreated(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, os.Remove(w.sockets))
	watcher, _ := w.watch()
	w.waitUntil(func() bool {
		_, err := os.Stat(w.sockets)
		return err == nil
	})
	endpoint := w.driver("node-1")
	for range 3 {
		stop := w.serve(endpoint)
		w.waitFor(watcher, driverName)
		require.NoError(t, os.RemoveAll(w.sockets))
		w.waitUntil(func() bool { return w.cluster.nodeID(driverName) == "" })
		stop()
		w.waitUntil(func() bool {
			_, err := os.Stat(w.sockets)
			return err == nil
		})
	}
}

// TestOutageOfTheCluster: the driver is registered on the node, and receives its status after the
// outage, without being asked again.
func TestOutageOfTheCluster(t *testing.T) {
	for name, outage := range map[string]error{
		"transient": volume.AsTransient(errors.New("no connection")),
		"uncertain": volume.AsUncertain(errors.New("connection lost")),
		"timeout":   fmt.Errorf("put: %w", context.DeadlineExceeded),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cluster.fail(outage)
			watcher, _ := w.watch()
			var calls atomic.Int32
			r := &countingRegistrar{testRegistrar{info: info(w.driver("node-1")), status: make(chan *registerapi.RegistrationStatus, 10)}, &calls}
			stop := w.serveRegistrar("a.sock", r)
			driver := w.waitFor(watcher, driverName)
			w.waitUntil(func() bool { return w.cluster.count() > 3 })
			require.Empty(t, r.status)
			w.cluster.fail(nil)
			require.True(t, (<-r.status).PluginRegistered)
			require.EqualValues(t, 1, calls.Load())
			require.Equal(t, driver, w.waitFor(watcher, driverName), "one registration")

			w.cluster.fail(outage)
			stop()
			w.waitUntil(func() bool {
				_, ok := watcher.Driver(driverName)
				return !ok
			})
			writes := w.cluster.count()
			w.waitUntil(func() bool { return w.cluster.count() > writes+3 })
			w.cluster.fail(nil)
			w.waitUntil(func() bool { return w.cluster.nodeID(driverName) == "" })
		})
	}
}

// TestClusterRefusesDriver: the driver receives the reason and is not registered.
func TestClusterRefusesDriver(t *testing.T) {
	w := newWorld(t)
	w.cluster.fail(errors.New("zone z1 contradicts the label z2"))
	watcher, _ := w.watch()
	r, _ := w.registrar("a.sock", info(w.driver("node-1")))
	result := <-r.status
	require.False(t, result.PluginRegistered)
	require.Contains(t, result.Error, "write driver test.csi.example to the cluster: zone z1 contradicts the label z2")
	w.waitUntil(func() bool {
		_, ok := watcher.Driver(driverName)
		return !ok
	})
	w.cluster.fail(nil)
	w.waitUntil(func() bool { return (<-r.status).PluginRegistered })
	w.waitFor(watcher, driverName)
}

// TestHangingClusterDelaysNoOther: the write of one driver hangs; after the timeout it is repeated.
func TestHangingClusterDelaysNoOther(t *testing.T) {
	w := newWorld(t)
	hanging := &hangingCluster{testCluster: w.cluster}
	watcher, _ := w.watch(func(c *Config) { c.Node, c.Timeout = hanging, 20*time.Millisecond })
	endpoint := w.driver("node-1")
	answer := info(endpoint)
	answer.Name = "hang.example"
	w.registrar("a.sock", answer)
	w.waitUntil(func() bool { return hanging.calls.Load() >= 2 })
	w.waitFor(watcher, "hang.example")
	w.serve(endpoint)
	w.waitUntil(func() bool { return w.cluster.nodeID(driverName) == "node-1" })
}

type hangingCluster struct {
	*testCluster
	calls atomic.Int32
}

func (c *hangingCluster) PutDriver(ctx context.Context, driver storagev1.CSINodeDriver, topology map[string]string) error {
	if driver.Name == "hang.example" {
		c.calls.Add(1)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return c.testCluster.PutDriver(ctx, driver, topology)
}

// TestWithoutCluster: a node without a cluster registers drivers.
func TestWithoutCluster(t *testing.T) {
	w := newWorld(t)
	watcher, _ := w.watch(func(c *Config) { c.Node = nil })
	stop := w.serve(w.driver("node-1"))
	w.waitFor(watcher, driverName)
	stop()
	w.waitUntil(func() bool {
		_, ok := watcher.Driver(driverName)
		return !ok
	})
}

func TestConfigIsChecked(t *testing.T) {
	for name, test := range map[string]struct {
		config Config
		field  string
	}{
		"no directory":       {Config{}, "Dir"},
		"relative directory": {Config{Dir: "plugins_registry"}, "Dir"},
		"negative timeout":   {Config{Dir: "/a", Timeout: -1}, "Timeout"},
		"negative backoff":   {Config{Dir: "/a", Backoff: -1}, "Backoff"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.config)
			var refused *input.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, test.field, refused.Field)
		})
	}
}

func TestPause(t *testing.T) {
	config, err := Config{Dir: "/a"}.checked()
	require.NoError(t, err)
	var got []time.Duration
	for failures := 1; failures <= 10; failures++ {
		got = append(got, config.pause(failures))
	}
	require.Equal(t, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 32 * time.Second, 64 * time.Second, 2 * time.Minute, 2 * time.Minute}, got)
	require.Equal(t, 2*time.Minute, config.pause(1_000_000))
}

// FuzzInfo: for each answer of a registrar, an accepted claim is valid as the name of a directory and the path
// of a socket.
func FuzzInfo(f *testing.F) {
	for _, i := range []*registerapi.PluginInfo{info("/run/csi.sock"), info(""), {Name: "../x", Type: registerapi.CSIPlugin, SupportedVersions: []string{"1.99999999999999999999"}}} {
		data, err := proto.Marshal(protoadapt.MessageV2Of(i))
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var answer registerapi.PluginInfo
		if proto.Unmarshal(data, protoadapt.MessageV2Of(&answer)) != nil {
			return
		}
		c, err := checkInfo(&answer, "/registry/a.sock")
		if err != nil {
			require.Less(t, len(err.Error()), 1024)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.Equal(t, filepath.Base(c.name), c.name)
		require.NotContains(t, []string{".", "..", ""}, c.name)
		require.LessOrEqual(t, len(c.name), 63)
		require.True(t, filepath.IsAbs(c.endpoint))
		require.Equal(t, filepath.Clean(c.endpoint), c.endpoint)
		require.LessOrEqual(t, len(c.endpoint), 107)
		require.NotContains(t, c.endpoint, "\x00")
	})
}
