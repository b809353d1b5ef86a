package sanitytest_test

import (
	"context"
	"io/fs"
	"os"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	nodes "k8s.io/apimachinery/pkg/types"
)

// A served is a plugin whose driver is tested.
type served struct {
	name   string
	plugin func(dir string, mounter mount.Interface) volume.VolumePlugin
	driver func(dir string, c *driver.Config)
	sanity func(c *sanity.TestConfig)
	skips  map[string]string // explanations, by the reason in the report
	files  []string          // further directories that have no file at the end
	// serve serves a driver that has no plugin, until the test ends.
	serve func(t *testing.T, dir string) *sanity.TestConfig
}

const nodeName = "node-1"

var allServed = []served{
	{
		name: "local",
		plugin: func(dir string, mounter mount.Interface) volume.VolumePlugin {
			return local.NewProvisioning(local.ProvisioningConfig{
				Config: local.Config{Mounter: mounter}, Provisioner: "local.csi.example.com", ClaimRoots: []string{dir + "/claims"},
			})
		},
		driver: func(dir string, c *driver.Config) {
			c.Topology = []driver.Segment{{Key: "topology.local.csi.example.com/node", Value: nodeName}}
			c.Capacity = func(ctx context.Context, _ map[string]string) (driver.Capacity, error) {
				use, err := fsusage.Stat(ctx, dir+"/claims")
				return driver.Capacity{Available: use.Available, Largest: use.Capacity}, err
			}
		},
		skips: merge(notServed, map[string]string{
			"ControllerPublishVolume not supported":             noAttach,
			"ControllerUnpublishVolume not supported":           noAttach,
			"Controller Publish, UnpublishVolume not supported": noAttach,
			"ControllerExpandVolume not supported":              "a directory has no size of its own to expand",
		}),
	},
	{
		name: "fake",
		plugin: func(_ string, mounter mount.Interface) volume.VolumePlugin {
			return volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter, MaxVolumes: 2})
		},
		driver: func(_ string, c *driver.Config) {
			c.MaxVolumes = 2
			c.NodeName = func(_ context.Context, id string) (nodes.NodeName, error) {
				if id != nodeName {
					return "", fs.ErrNotExist
				}
				return nodeName, nil
			}
		},
		sanity: func(c *sanity.TestConfig) { c.TestNodeVolumeAttachLimit = true },
		skips: merge(notServed, map[string]string{
			"GetCapacity not supported":                            "the fake has no space to measure",
			"ControllerPublishVolume.readonly field not supported": "volume.Attacher attaches for reading and writing",
		}),
	},
}

// notServed explains the skips of all drivers.
var notServed = map[string]string{
	"pending":                                  noPending,
	"Snapshot not supported":                   noSnapshots,
	"ListSnapshots not supported":              noSnapshots,
	"GetSnapshot not supported":                noSnapshots,
	"DeleteSnapshot not supported":             noSnapshots,
	"CreateSnapshot not supported":             noSnapshots,
	"GroupControllerService not supported":     noSnapshots,
	"Volume Cloning not supported":             "plugins provision empty volumes",
	"Modify volume not supported":              noModify,
	"Modify Volume not supported":              noModify,
	"ControllerModifyVolume not supported":     noModify,
	"ControllerGetVolumeHealth not supported":  noHealth,
	"ControllerListVolumeHealth not supported": noHealth,
	"NodeGetVolumeHealth not supported":        noHealth,
	"NodeGetStorageHealth not supported":       noHealth,
}

const (
	noAttach    = "directories of a node are not attached"
	noPending   = "csi-sanity itself leaves this test out"
	noSnapshots = "plugins have no snapshots"
	noModify    = "plugins have no parameters that change"
	noHealth    = "calls of a newer specification than that of module csi"
)

func merge(a, b map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

// TestSanity runs csi-sanity on each driver in a mount namespace. A skip without an explanation is a
// failure, and so is an explanation without a skip.
func TestSanity(t *testing.T) {
	if mounttest.Namespace(t) {
		runSanity(t, allServed...)
	}
}

// runSanity runs csi-sanity on the drivers. It can run once in a process.
func runSanity(t *testing.T, all ...served) {
	for _, s := range all {
		config := s.start(t)
		ginkgo.Describe(s.name, func() { sanity.GinkgoTest(config) })
	}
	var report types.Report
	ginkgo.ReportAfterSuite("report", func(r types.Report) { report = r })
	gomega.RegisterFailHandler(ginkgo.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	reporter.Succinct, reporter.NoColor = true, true
	ginkgo.RunSpecs(t, "csi-sanity", suite, reporter)
	for _, s := range all {
		s.check(t, report)
	}
}

// start serves the plugin until the test ends.
func (s served) start(t *testing.T) *sanity.TestConfig {
	dir, err := os.MkdirTemp("", "s") // short enough for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, sub := range []string{"/claims", "/root", "/kubelet"} {
		require.NoError(t, os.Mkdir(dir+sub, 0o755))
	}
	if s.serve != nil {
		return s.serve(t, dir)
	}
	host, err := volume.NewHost(t.Context(), dir+"/root", volume.WithTargetDirs(dir+"/kubelet"), volume.WithNodeName(nodeName))
	require.NoError(t, err)
	mounter := mount.New(mount.Config{})
	listener, err := driver.Listen(t.Context(), dir+"/csi.sock")
	require.NoError(t, err)
	config := driver.Config{Name: s.name + ".csi.example.com", Version: "1.0", NodeID: nodeName, Plugin: s.plugin(dir, mounter), Host: host}
	s.driver(dir, &config)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- driver.Serve(ctx, listener, config) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		s.requireNothingLeft(t, dir, mounter)
	})
	test := sanity.NewTestConfig()
	test.Address, test.TargetPath, test.StagingPath = "unix:"+dir+"/csi.sock", dir+"/kubelet/target", dir+"/kubelet/staging"
	test.TestVolumeSize, test.TestVolumeExpandSize = 1<<20, 1<<21
	if s.sanity != nil {
		s.sanity(&test)
	}
	return &test
}

// requireNothingLeft: no volume, no record and no mount is left.
func (s served) requireNothingLeft(t *testing.T, dir string, mounter mount.Interface) {
	t.Helper()
	table, err := mounter.List(context.Background())
	require.NoError(t, err)
	for _, m := range table {
		require.NotContains(t, m.Mountpoint, dir)
	}
	for _, at := range append([]string{dir + "/claims", dir + "/root/plugins/volumekit.io/csi", dir + "/kubelet"}, s.files...) {
		require.NoError(t, fs.WalkDir(os.DirFS(at), ".", func(name string, entry fs.DirEntry, err error) error {
			require.NoError(t, err)
			isExport := name == ".volumekit/export" // the name of an NFS export, which outlives its volumes
			require.True(t, entry.IsDir() || isExport, "left: %s/%s", at, name)
			return nil
		}))
	}
}

// check compares the report with the explanations.
func (s served) check(t *testing.T, report types.Report) {
	passed, used := 0, map[string]int{}
	for _, spec := range report.SpecReports {
		if len(spec.ContainerHierarchyTexts) == 0 || spec.ContainerHierarchyTexts[0] != s.name {
			continue
		}
		switch spec.State {
		case types.SpecStatePassed:
			passed++
		case types.SpecStateSkipped, types.SpecStatePending:
			reason := spec.Failure.Message
			if spec.State == types.SpecStatePending {
				reason = "pending"
			}
			if s.skips[reason] == "" {
				t.Errorf("%s: skipped, and not explained: %s: %q", s.name, spec.FullText(), reason)
			}
			used[reason]++
		default:
			t.Errorf("%s: %s: %s: %s", s.name, spec.State, spec.FullText(), spec.Failure.Message)
		}
	}
	for reason, explanation := range s.skips {
		if used[reason] == 0 {
			t.Errorf("%s: no test is skipped by %q (%s)", s.name, reason, explanation)
		}
		t.Logf("%s: %d skipped: %s: %s", s.name, used[reason], reason, explanation)
	}
	t.Logf("%s: %d passed", s.name, passed)
	require.Positive(t, passed)
}
