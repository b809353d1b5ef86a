package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A realCluster has the program and a node, with real mounts, and an NFS server in the same kernel.
type realCluster struct {
	*clustertest.Cluster
	nfs    *nfsserver.Server
	export string // a directory that the NFS server has
	root   string // all mounts are below it
	kernel *mount.Mounter
	node   *clustertest.Node
	kept   string // a file in a volume that a pod has
}

// newRealCluster returns a cluster in a guest; a test outside a guest is skipped.
func newRealCluster(t *testing.T) *realCluster {
	t.Helper()
	export, root := t.TempDir(), t.TempDir()
	c := &realCluster{nfs: nfsserver.Start(t, export), export: export, root: root}
	c.kernel = mount.New(mount.Config{StagingDir: root + "/staging", Helpers: []string{}, Unmount: mount.UnmountPolicy{Grace: 2 * time.Second}})
	t.Cleanup(func() { // after a failure
		require.NoError(t, c.nfs.LinkUp())
		for _, at := range c.mounts() {
			assert.NoError(t, c.kernel.UnmountTree(c.withoutCancel(), at.Mountpoint))
		}
	})
	server := apitest.NewServer(apitest.Config{})
	c.Cluster = clustertest.New(t, server.Direct())
	p, err := newProgram(t.Context(), options{
		provisioner: nfsSubdir, server: c.nfs.Address, path: export, mountWith: []string{"timeo=50"}, root: root + "/program", timeout: time.Second,
	}, parts{cluster: server.Connect("provisioner"), announce: c.Record, mounter: c.kernel, usualDir: "/none"}, io.Discard)
	require.NoError(t, err)
	c.Start(p.runLocked)

	require.NoError(t, os.Mkdir(root+"/node", 0o755))
	c.node, err = clustertest.NewNode(t.Context(), clustertest.NodeConfig{
		Cluster: server.Connect("node"), Name: "node-1", Mounter: c.kernel, Root: root + "/node",
		Plugins: []volume.VolumePlugin{nfs.New(nfs.Config{Mounter: c.kernel})},
	})
	require.NoError(t, err)
	c.Start(c.node.Run)
	return c
}

// mounts returns the mounts of the program and the node.
func (c *realCluster) mounts() (ours mount.Table) {
	c.Helper()
	table, err := c.kernel.List(c.withoutCancel())
	require.NoError(c, err)
	for _, at := range table {
		if strings.HasPrefix(at.Mountpoint, c.root+"/") && strings.HasPrefix(at.FSType, "nfs") {
			ours = append(ours, at)
		}
	}
	return ours
}

// files returns the number of directories and of records on the export.
func (c *realCluster) files() (n int) {
	c.Helper()
	for _, dir := range []string{"", "/.volumekit"} {
		entries, _ := os.ReadDir(c.export + dir) // .volumekit does not exist at first
		n += len(entries)
	}
	return n
}

// withoutCancel returns a context that a cleanup can use.
func (c *realCluster) withoutCancel() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	c.Cleanup(cancel)
	return ctx
}

// startPod runs a pod that writes a file to the volume of a claim. It returns the path of the file.
func (c *realCluster) startPod(claim *v1.PersistentVolumeClaim) (pod *v1.Pod, file string) {
	c.Helper()
	pod, err := c.API.Pods(claim.Namespace).Create(c.Context(), clustertest.NewPod("pod-of-"+claim.Name, "node-1", claim), metav1.CreateOptions{})
	require.NoError(c, err)
	require.NoError(c, c.node.Volumes.WaitForAttachAndMount(c.Context(), pod))
	file = filepath.Join(c.node.Volumes.GetMountedVolumesForPod(pod.UID)["data"].Path, "file")
	require.NoError(c, os.WriteFile(file, []byte(claim.Name), 0o600))
	return pod, file
}

func (c *realCluster) endPod(pod *v1.Pod) {
	c.Helper()
	require.NoError(c, c.API.Pods(pod.Namespace).Delete(c.Context(), pod.Name, *metav1.NewDeleteOptions(0)))
	require.NoError(c, c.node.Volumes.WaitForUnmount(c.Context(), pod))
}

// A death of the NFS server ends with live.
type death struct{ die, live func(*nfsserver.Server) error }

var deaths = map[string]death{
	"silent":  {(*nfsserver.Server).LinkDown, (*nfsserver.Server).LinkUp},
	"refuses": {(*nfsserver.Server).Stop, (*nfsserver.Server).Start},
}

// An outage of the NFS server begins before a call of the controller, after the first change of the export
// by the call, or some milliseconds after the call: the round decides. It ends after the call has failed,
// with an event of the reason, or has succeeded.
type outage struct {
	death
	round     int
	reason    string
	begin     func()
	isDone    func() bool
	meanwhile func() // before the end; may be nil
}

// run reports whether the call has failed.
func (o outage) run(c *realCluster) (failed bool) {
	c.Helper()
	before, files := c.CountEvents(o.reason), c.files()
	switch o.round % 3 {
	case 0:
		require.NoError(c, o.die(c.nfs))
		o.begin()
	case 1:
		o.begin()
		for files == c.files() && !o.isDone() {
		}
		require.NoError(c, o.die(c.nfs))
	case 2:
		o.begin()
		time.Sleep(time.Duration(o.round) * time.Millisecond)
		require.NoError(c, o.die(c.nfs))
	}
	c.Eventually("no end of the call: "+o.reason, func() bool {
		failed = c.CountEvents(o.reason) > before
		return failed || o.isDone()
	})
	if o.meanwhile != nil {
		o.meanwhile()
	}
	require.NoError(c, o.live(c.nfs))
	// Linux 6.1 may fail a call with ERESTARTSYS while the client connects again.
	c.Eventually("the client is not connected", func() bool { return os.WriteFile(c.kept+".new", nil, 0o600) == nil })
	return failed
}

// TestNFSClusterServerDies: the NFS server dies while the controller provisions, deletes and archives, and
// while the node has a volume mounted. After its return each claim is bound and usable on the node, each
// volume of a deleted claim is gone, its files are deleted or archived as its class requires, and the
// mounted volume has kept its data. No directory and no mount is left over, also of a claim that was
// deleted before its storage was certain.
func TestNFSClusterServerDies(t *testing.T) {
	rounds := 3
	if !testing.Short() {
		rounds = 15
	}
	for name, how := range deaths {
		t.Run(name, func(t *testing.T) {
			c := newRealCluster(t)
			classes := map[string]*storagev1.StorageClass{
				"delete":  c.CreateClass(clustertest.NewClass("delete", nfsSubdir, map[string]string{"onDelete": "delete"})),
				"archive": c.CreateClass(clustertest.NewClass("archive", nfsSubdir, map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}"})),
			}
			failures := map[string]int{}
			kept := c.CreateClaim("kept", "1Ki", classes["delete"], func(*v1.PersistentVolumeClaim) {})
			c.WaitUntilBound(kept)
			var keeper *v1.Pod
			keeper, c.kept = c.startPod(kept)
			for i := range rounds {
				test := &claimTest{realCluster: c, death: how, round: i, failures: failures}
				for end, class := range classes {
					test.use(fmt.Sprintf("%s-%d", end, i), class)
				}
				test.abandon(fmt.Sprint("abandoned-", i), classes["delete"])
			}
			t.Logf("calls that found the server dead: %v", failures)
			for _, call := range []string{"Provision", "delete", "archive"} {
				require.NotZero(t, failures[call], "the server never died during a call of %s", call)
			}
			text, err := os.ReadFile(c.kept)
			require.NoError(t, err)
			require.Equal(t, "kept", string(text))
			c.endPod(keeper)
			c.Release(kept)
			c.WaitUntilDeleted(kept)
			c.requireNothingLeft(rounds)
		})
	}
}

// A claimTest is the life of a claim of a class, with an outage during each call for it.
type claimTest struct {
	*realCluster
	death
	round    int
	failures map[string]int // of calls, by their names
	claim    *v1.PersistentVolumeClaim
}

func (c *claimTest) volumeExists() bool {
	_, err := c.API.PersistentVolumes().Get(c.Context(), "pvc-"+string(c.claim.UID), metav1.GetOptions{})
	return !apierrors.IsNotFound(err)
}

// provision creates the claim while the server dies.
func (c *claimTest) provision(name string, class *storagev1.StorageClass, meanwhile func()) {
	c.Helper()
	begin := func() { c.claim = c.CreateClaim(name, "1Ki", class, func(*v1.PersistentVolumeClaim) {}) }
	if (outage{c.death, c.round, "ProvisioningFailed", begin, c.volumeExists, meanwhile}).run(c.realCluster) {
		c.failures["Provision"]++
	}
}

// use provisions the claim, uses it on the node, and deletes it while the server dies again.
func (c *claimTest) use(name string, class *storagev1.StorageClass) {
	c.Helper()
	c.provision(name, class, nil)
	c.WaitUntilBound(c.claim)
	pod, _ := c.startPod(c.claim)
	c.endPod(pod)
	begin, isDone := func() { c.Release(c.claim) }, func() bool { return !c.volumeExists() }
	if (outage{c.death, c.round, "VolumeFailedDelete", begin, isDone, nil}).run(c.realCluster) {
		c.failures[class.Name]++
	}
	c.WaitUntilDeleted(c.claim)
	c.requireEnd(c.claim, class.Name)
}

// abandon deletes the claim before its storage is certain.
func (c *claimTest) abandon(name string, class *storagev1.StorageClass) {
	c.Helper()
	c.round = 1
	claims := c.API.PersistentVolumeClaims(v1.NamespaceDefault)
	c.provision(name, class, func() { require.NoError(c, claims.Delete(c.Context(), name, metav1.DeleteOptions{})) })
	c.Eventually("claim "+name+" exists", func() bool {
		_, err := claims.Get(c.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	c.WaitUntilDeleted(c.claim)
}

// requireEnd verifies the files of a deleted claim on the NFS server.
func (c *realCluster) requireEnd(claim *v1.PersistentVolumeClaim, end string) {
	c.Helper()
	pv := "pvc-" + string(claim.UID)
	if end == "delete" {
		require.NoDirExists(c, filepath.Join(c.export, "default-"+claim.Name+"-"+pv))
		return
	}
	require.NoDirExists(c, filepath.Join(c.export, "default", claim.Name))
	text, err := os.ReadFile(filepath.Join(c.export, "archived-"+claim.Name+"-"+pv, "file"))
	require.NoError(c, err)
	require.Equal(c, claim.Name, string(text))
}

// requireNothingLeft requires that no volume, no mount, no record and no directory exists but the archives and the name of
// the export.
func (c *realCluster) requireNothingLeft(archives int) {
	c.Helper()
	volumes, err := c.API.PersistentVolumes().List(c.Context(), metav1.ListOptions{})
	require.NoError(c, err)
	require.Empty(c, volumes.Items)
	c.Eventually("mounts are left over", func() bool { return len(c.mounts()) == 0 })
	parent := fmt.Sprintf("%x", sha256.Sum256([]byte("default"))) // of the archived directories, which stays
	for _, dir := range []string{"", "/.volumekit", "/default"} {
		entries, err := os.ReadDir(c.export + dir)
		require.NoError(c, err)
		for _, entry := range entries {
			switch name := entry.Name(); {
			case strings.HasPrefix(name, "archived-"):
				archives--
			case !slices.Contains([]string{"/.volumekit", "/default", "/.volumekit/export", "/.volumekit/" + parent}, dir+"/"+name):
				assert.Fail(c, "a file is left over", "%s/%s", dir, name)
			}
		}
	}
	require.Zero(c, archives)
}
