package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/agents/internal/oldnode"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/loop"
)

const (
	nodeA, nodeB = "node-a", "node-b"

	diskClass, lateDiskClass, localClass = "disks", "late-disks", "directories"
	diskFSType                           = "xfs" // each machine that mounts it can grow it
)

// A processCluster is a real API server with two nodes, and with programs in processes of their own.
type processCluster struct {
	*clustertest.Server
	places
	plane     *process // one of processes
	processes []*process
	seed      uint64 // of all random numbers
	started   time.Time
	steps     atomic.Int64 // successful waits
}

// newProcessCluster starts an API server and all processes, and waits until the drivers are registered.
func newProcessCluster(t *testing.T) *processCluster {
	t.Helper()
	programs := buildPrograms(t, "github.com/volumekit/volumekit/agents/cmd/controlplane", "github.com/volumekit/volumekit/agents/cmd/localdriver",
		"github.com/volumekit/volumekit/agents/cmd/diskdriver", "github.com/volumekit/volumekit/agents/cmd/nodeagent")
	c := &processCluster{Server: clustertest.Start(t), places: places{shortDir(t)}, seed: rand.Uint64(), started: time.Now()}
	c.makeDirs()
	c.createStorage()
	c.startProcesses(programs())
	t.Cleanup(c.report)
	c.await(t, "the drivers are registered", c.unregistered)
	return c
}

// makeDirs mounts the directory of the test, and makes those in it.
func (c *processCluster) makeDirs() {
	c.Helper()
	require.NoError(c, unix.Mount("tmpfs", c.dir, "tmpfs", 0, ""))
	c.Cleanup(func() {
		devices, _ := c.devices(context.Background())
		_ = unix.Unmount(c.dir, unix.MNT_DETACH)
		for _, d := range devices { // after a failure
			_ = loop.Detach(context.Background(), d)
		}
	})
	for _, dir := range []string{c.disks(), c.claims(), c.controller(), c.registry(nodeA), c.registry(nodeB)} {
		require.NoError(c, os.MkdirAll(dir, 0o755))
	}
}

// createStorage creates the classes and the CSIDriver objects.
func (c *processCluster) createStorage() {
	c.Helper()
	storage, isLate, grows := c.Admin.StorageV1(), storagev1.VolumeBindingWaitForFirstConsumer, true
	onDisk := map[string]string{"csi.storage.k8s.io/fstype": diskFSType}
	for _, class := range []*storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: diskClass}, Provisioner: diskDriver, Parameters: onDisk, AllowVolumeExpansion: &grows},
		{ObjectMeta: metav1.ObjectMeta{Name: lateDiskClass}, Provisioner: diskDriver, Parameters: onDisk, AllowVolumeExpansion: &grows, VolumeBindingMode: &isLate},
		{ObjectMeta: metav1.ObjectMeta{Name: localClass}, Provisioner: localDriver, VolumeBindingMode: &isLate},
	} {
		_, err := storage.StorageClasses().Create(c.Context(), class, metav1.CreateOptions{})
		require.NoError(c, err)
	}
	for name, attaches := range map[string]bool{diskDriver: true, localDriver: false} {
		_, err := storage.CSIDrivers().Create(c.Context(), &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{AttachRequired: &attaches},
		}, metav1.CreateOptions{})
		require.NoError(c, err)
	}
}

// startProcesses starts all processes, and the control plane once the agents have created their nodes. The built programs
// are in a directory.
func (c *processCluster) startProcesses(programs string) {
	c.Helper()
	agents := c.NewAccount("../nodeagent/rbac.yaml", "../nodeagent/rbac-register.yaml", "../nodeagent/rbac-csi.yaml").Kubeconfig()
	for _, node := range []string{nodeA, nodeB} {
		c.startProcess("agent of "+node, func() *exec.Cmd {
			return exec.Command(filepath.Join(programs, "nodeagent"), "-kubeconfig", agents, "-node", node, "-root", c.root(node), "-register", "-csi")
		})
	}
	for _, node := range []string{nodeA, nodeB} {
		c.await(c.T, node+" is ready", func() string { return c.unready(node) })
		require.NoError(c, c.Store.Rewrite(c.Context(), oldnode.Key(node), oldnode.Age))
	}
	plane := c.NewAccount("../controlplane/rbac.yaml").Kubeconfig()
	c.plane = c.startProcess("control plane", func() *exec.Cmd {
		return exec.Command(filepath.Join(programs, "controlplane"), "-kubeconfig", plane, "-leader-election=false")
	})
	companions := c.NewAccount("rbac.yaml").Kubeconfig()
	sidecar := func(socket string) func() *exec.Cmd {
		return func() *exec.Cmd {
			return mounttest.Program("sidecar", "--csi-address="+socket, "--kubeconfig="+companions)
		}
	}
	disk := func(node string, args ...string) func() *exec.Cmd {
		return func() *exec.Cmd {
			return exec.Command(filepath.Join(programs, "diskdriver"), append(args, "-node-id="+node, "-disks="+c.disks())...)
		}
	}
	c.startProcess("sidecar of disks", sidecar(c.controllerSocket()))
	c.startProcess("sidecar of directories", sidecar(c.localSocket(nodeA)))
	c.startProcess("driver of disks beside the sidecar", disk("controller", "-controller", "-kubelet-dir="+c.controller(), "-endpoint="+c.controllerSocket())).servesDisks = true
	for _, node := range []string{nodeA, nodeB} {
		c.startProcess("driver of disks on "+node, disk(node, "-kubelet-dir="+c.root(node))).servesDisks = true
	}
	c.startProcess("driver of directories on "+nodeA, func() *exec.Cmd {
		return exec.Command(filepath.Join(programs, "localdriver"), "-node-id="+nodeA, "-kubelet-dir="+c.root(nodeA), "-claims="+c.claims())
	})
}

// startProcess starts a process, which ends with the test.
func (c *processCluster) startProcess(name string, command func() *exec.Cmd) *process {
	c.Helper()
	p := &process{name: name, command: command}
	c.processes = append(c.processes, p)
	require.NoError(c, p.start())
	c.Cleanup(p.kill)
	return p
}

// unready returns why a node is not ready, or "".
func (c *processCluster) unready(name string) string {
	node, err := c.Admin.CoreV1().Nodes().Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady && condition.Status == v1.ConditionTrue {
			return ""
		}
	}
	return fmt.Sprintf("conditions %v", node.Status.Conditions)
}

// unregistered returns the first node without all its drivers, or "".
func (c *processCluster) unregistered() string {
	for _, node := range []string{nodeA, nodeB} {
		object, err := c.Admin.StorageV1().CSINodes().Get(c.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		want, have := []string{diskDriver}, []string{}
		if node == nodeA {
			want = append(want, localDriver)
		}
		for _, d := range object.Spec.Drivers {
			have = append(have, d.Name)
		}
		slices.Sort(have)
		if !slices.Equal(have, want) {
			return fmt.Sprintf("%s has %s", node, have)
		}
	}
	return ""
}

// await waits until missing returns "". It fails the test at once if there are violations.
func (c *processCluster) await(t require.TestingT, what string, missing func() string) {
	const patience = 10 * time.Minute // several runs of the control plane may wait 2 minutes each
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		require.Empty(t, c.violations())
		left := missing()
		if left == "" {
			c.logf("%s", what)
			c.steps.Add(1)
			return
		}
		require.True(t, time.Now().Before(end), "%s: %s", what, left)
	}
}

// violations returns the events that no kill explains: processes that have ended by themselves, calls that the driver of disks
// has refused, and disks that are mounted on nodes that do not hold them.
func (c *processCluster) violations() (all []string) {
	for _, p := range c.processes {
		all = append(all, p.ownEnds()...)
		if p.servesDisks {
			all = append(all, p.output.refusals()...)
		}
	}
	text, err := c.wronglyMounted(context.Background())
	if text != "" || err != nil {
		all = append(all, text+errorText(err))
	}
	return all
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// logf logs a line with the time since the start.
func (c *processCluster) logf(format string, args ...any) {
	c.Logf("%8.3fs %s", time.Since(c.started).Seconds(), fmt.Sprintf(format, args...))
}

// report logs the seed and, if the test has failed, the output of all processes.
func (c *processCluster) report() {
	c.logf("seed %d", c.seed)
	if !c.Failed() {
		return
	}
	for _, p := range c.processes {
		c.Logf("output of the %s:\n%s", p.name, &p.output)
	}
	c.logObjects()
}
