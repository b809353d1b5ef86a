package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/volumekit/volumekit/controllers/attach"
	"github.com/volumekit/volumekit/csi/internal/oldnode"
	"github.com/volumekit/volumekit/internal/kubeserver"
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
	*testing.T
	places
	server    *kubeserver.Server
	config    *rest.Config // of the administrator
	admin     *kubernetes.Clientset
	plane     *process // one of processes
	processes []*process
	seed      uint64 // of all random numbers
	started   time.Time
	steps     atomic.Int64 // successful waits
}

// newProcessCluster starts an API server and all processes, and waits until the drivers are registered.
func newProcessCluster(t *testing.T) *processCluster {
	t.Helper()
	programs := buildPrograms(t, "github.com/volumekit/volumekit/controllers/examples/controlplane", "github.com/volumekit/volumekit/csi/examples/local",
		"github.com/volumekit/volumekit/csi/examples/disk")
	server := kubeserver.Start(t)
	config := &rest.Config{Host: server.URL, BearerToken: server.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: server.CA}}
	admin, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	c := &processCluster{T: t, places: places{shortDir(t)}, server: server, config: config, admin: admin, seed: rand.Uint64(), started: time.Now()}
	c.makeDirs()
	c.createNodes()
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

// createNodes creates the nodes.
func (c *processCluster) createNodes() {
	c.Helper()
	for _, name := range []string{nodeA, nodeB} {
		node, err := c.admin.CoreV1().Nodes().Create(c.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1.LabelHostname: name}, Annotations: map[string]string{attach.ManagedAnnotation: "true"},
		}}, metav1.CreateOptions{})
		require.NoError(c, err)
		node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
		_, err = c.admin.CoreV1().Nodes().UpdateStatus(c.Context(), node, metav1.UpdateOptions{})
		require.NoError(c, err)
		require.NoError(c, c.server.Rewrite(c.Context(), oldnode.Key(name), oldnode.Age))
	}
}

// createStorage creates the namespace of the claims, the classes, and the CSIDriver objects.
func (c *processCluster) createStorage() {
	c.Helper()
	c.await(c.T, "the namespace exists", func() string {
		_, err := c.admin.CoreV1().Namespaces().Get(c.Context(), v1.NamespaceDefault, metav1.GetOptions{})
		return errorText(err)
	})
	storage, isLate, grows := c.admin.StorageV1(), storagev1.VolumeBindingWaitForFirstConsumer, true
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

// startProcesses starts all processes. The built programs are in a directory.
func (c *processCluster) startProcesses(programs string) {
	c.Helper()
	admin := c.writeKubeconfig(c.config.BearerToken)
	plane := c.createAccount("../../../controllers/examples/controlplane/rbac.yaml")
	c.plane = c.startProcess("control plane", func() *exec.Cmd {
		return exec.Command(filepath.Join(programs, "controlplane"), "-kubeconfig", plane, "-leader-election=false")
	})
	companions := c.createAccount("rbac.yaml")
	sidecar := func(socket string) func() *exec.Cmd {
		return func() *exec.Cmd {
			return mounttest.Program("sidecar", "--csi-address="+socket, "--kubeconfig="+companions)
		}
	}
	disk := func(node string, args ...string) func() *exec.Cmd {
		return func() *exec.Cmd {
			return exec.Command(filepath.Join(programs, "disk"), append(args, "-node-id="+node, "-disks="+c.disks())...)
		}
	}
	c.startProcess("sidecar of disks", sidecar(c.controllerSocket()))
	c.startProcess("sidecar of directories", sidecar(c.localSocket(nodeA)))
	c.startProcess("driver of disks beside the sidecar", disk("controller", "-controller", "-kubelet-dir="+c.controller(), "-endpoint="+c.controllerSocket())).servesDisks = true
	for _, node := range []string{nodeA, nodeB} {
		c.startProcess("driver of disks on "+node, disk(node, "-kubelet-dir="+c.root(node))).servesDisks = true
		c.startProcess("agent of "+node, func() *exec.Cmd { return mounttest.Program("agent", c.dir, node, admin) })
	}
	c.startProcess("driver of directories on "+nodeA, func() *exec.Cmd {
		return exec.Command(filepath.Join(programs, "local"), "-node-id="+nodeA, "-kubelet-dir="+c.root(nodeA), "-claims="+c.claims())
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

// createAccount creates the objects of a manifest, and returns the file with the configuration of a client of
// its service account.
func (c *processCluster) createAccount(manifest string) (kubeconfig string) {
	c.Helper()
	text, err := os.ReadFile(manifest)
	require.NoError(c, err)
	var account *v1.ServiceAccount
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		require.NoError(c, err)
		require.NoError(c, c.create(object))
		if found, ok := object.(*v1.ServiceAccount); ok {
			account = found
		}
	}
	token, err := c.admin.CoreV1().ServiceAccounts(account.Namespace).CreateToken(c.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(c, err)
	return c.writeKubeconfig(token.Status.Token)
}

// create creates an object of a manifest.
func (c *processCluster) create(object runtime.Object) (err error) {
	ctx, rbac, core, options := c.Context(), c.admin.RbacV1(), c.admin.CoreV1(), metav1.CreateOptions{}
	switch o := object.(type) {
	case *v1.Namespace:
		_, err = core.Namespaces().Create(ctx, o, options)
	case *v1.ServiceAccount:
		_, err = core.ServiceAccounts(o.Namespace).Create(ctx, o, options)
	case *rbacv1.ClusterRole:
		_, err = rbac.ClusterRoles().Create(ctx, o, options)
	case *rbacv1.ClusterRoleBinding:
		_, err = rbac.ClusterRoleBindings().Create(ctx, o, options)
	case *rbacv1.Role:
		_, err = rbac.Roles(o.Namespace).Create(ctx, o, options)
	case *rbacv1.RoleBinding:
		_, err = rbac.RoleBindings(o.Namespace).Create(ctx, o, options)
	default:
		err = fmt.Errorf("%T: not expected", object)
	}
	return err
}

// writeKubeconfig writes a file with the configuration of a client with a token.
func (c *processCluster) writeKubeconfig(token string) (file string) {
	c.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: c.config.Host, CertificateAuthorityData: c.config.CAData}
	config.AuthInfos["program"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "program"}
	config.CurrentContext = "test"
	file = filepath.Join(c.TempDir(), "kubeconfig")
	require.NoError(c, clientcmd.WriteToFile(*config, file))
	return file
}

// unregistered returns the first node without all its drivers, or "".
func (c *processCluster) unregistered() string {
	for _, node := range []string{nodeA, nodeB} {
		object, err := c.admin.StorageV1().CSINodes().Get(c.Context(), node, metav1.GetOptions{})
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
