package nfs_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// provisioningOf returns a plugin that provisions on the export of a node, with mounts of its own.
func (n *node) provisioningOf(c nfs.ProvisioningConfig) *provisioning {
	n.Helper()
	c.Mounter, c.Provisioner, c.Server, c.Path = n.mounts, provisionerName, n.server.Address, n.export
	c.MountOptions = []string{"timeo=50"}
	p := &provisioning{T: n.T, plugin: nfs.NewProvisioning(c), export: n.export}
	require.NoError(n, p.plugin.Init(n.Context(), n.host))
	return p
}

// TestNFSProvisionContract is the contract of plugins with directories on a real server.
func TestNFSProvisionContract(t *testing.T) {
	n := newNode(t, nfs.Config{})
	var volumes atomic.Int32
	config := contractConfig(nfs.Config{}, func(readOnly bool) *volume.Spec {
		spec := n.pv(n.exported(fmt.Sprint(volumes.Add(1))))
		nfsOf(spec).ReadOnly = readOnly
		return spec
	})
	config.New = func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
		return nfs.NewProvisioning(nfs.ProvisioningConfig{
			Config: nfs.Config{Mounter: m}, Provisioner: provisionerName, Server: n.server.Address, Path: n.export,
		})
	}
	config.Claim = func(*testing.T) volume.VolumeOptions {
		return optionsOf(fmt.Sprintf("pvc-%d", volumes.Add(1)), map[string]string{"onDelete": "delete"})
	}
	config.NewMounter = func(t *testing.T) mount.Interface { return realMounter(t.TempDir(), 2*time.Second) }
	config.Backing = func(spec *volume.Spec) string { return nfsOf(spec).Path }
	volumetest.TestPlugin(t, config)
}

// TestNFSProvisionAndNode: a directory is provisioned, used by a pod of a node, and ends as its class
// requires, on servers that let root be root and on those that do not.
func TestNFSProvisionAndNode(t *testing.T) {
	for _, squash := range []bool{false, true} {
		for _, one := range []bool{false, true} {
			for name, parameters := range map[string]map[string]string{
				"archive": {"mode": "0770"}, "delete": {"onDelete": "delete"}, "retain": {"onDelete": "retain"},
				"pattern": {"pathPattern": "${.PVC.namespace}/${.PVC.name}"},
			} {
				t.Run(fmt.Sprintf("%s/squash=%t/one=%t", name, squash, one), func(t *testing.T) {
					export := t.TempDir()
					require.NoError(t, os.Chmod(export, 0o777))
					n := &node{T: t, export: export, server: nfsserver.Serve(t, nfsserver.Export{Dir: export, SquashRoot: squash})}
					n.on(t.TempDir(), nfs.Config{})
					p := n.provisioningOf(nfs.ProvisioningConfig{Config: nfs.Config{OneMountPerExport: one}})
					pv := p.mustProvision(optionsOf("pvc-1", parameters))
					require.Empty(t, n.mountsBelowRoot())
					n.plugin = p.plugin.Plugin
					spec := volume.NewSpecFromPersistentVolume(pv, false)
					at := n.setUp(spec, "1")
					require.NoError(t, os.MkdirAll(at.Mountpoint+"/a/b", 0o755))
					require.NoError(t, os.WriteFile(at.Mountpoint+"/a/b/file", []byte("data"), 0o600))
					n.tearDown(spec, "1")
					for range 2 {
						require.NoError(t, p.delete(pv))
					}
					n.requireEnd(pv, name)
					require.Empty(t, n.mountsBelowRoot())
				})
			}
		}
	}
}

// requireEnd verifies the files of a deleted volume on the server.
func (n *node) requireEnd(pv *v1.PersistentVolume, name string) {
	n.Helper()
	dir := pv.Spec.NFS.Path
	archive := map[string]string{"archive": "archived-ns-data-pvc-1", "pattern": "archived-data-pvc-1"}[name]
	switch {
	case name == "retain":
		require.FileExists(n, dir+"/a/b/file")
		return
	case archive != "":
		require.FileExists(n, filepath.Join(n.export, archive, "a/b/file"))
	default:
		entries, err := os.ReadDir(n.export)
		require.NoError(n, err)
		require.Len(n, entries, 1, "%v", entries)
		require.Equal(n, ".volumekit", entries[0].Name())
	}
	require.NoDirExists(n, dir)
}

// provisioningCalls are the calls that may find the server dead, each with the end of its class and
// its result.
var provisioningCalls = map[string]struct {
	parameters map[string]string
	deletes    bool
}{
	"Provision": {map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}", "mode": "0750"}, false},
	"Delete":    {map[string]string{"onDelete": "delete"}, true},
	"archive":   {map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}"}, true},
}

// TestNFSProvisionServerDies: a call during which the server dies ends with its context, and states
// no certain result that is wrong. Repeated with a live server it succeeds, once. A call
// before which the server died changed nothing.
func TestNFSProvisionServerDies(t *testing.T) {
	delays := 4
	if !testing.Short() {
		delays = 20
	}
	for death, how := range deaths {
		for name, call := range provisioningCalls {
			t.Run(death+"/"+name, func(t *testing.T) {
				n := newNode(t, nfs.Config{})
				p := n.provisioningOf(nfs.ProvisioningConfig{})
				dying := 0
				for i := range delays {
					o := optionsOf(fmt.Sprintf("pvc-%d", i), call.parameters)
					o.PVC.Name = fmt.Sprintf("data-%d", i)
					work := p.prepare(o, call.deletes)
					ctx, cancel := context.WithTimeout(n.Context(), 500*time.Millisecond)
					ended := make(chan error, 1)
					go func() { ended <- work(ctx) }()
					time.Sleep(time.Duration(i) * 3 * time.Millisecond)
					require.NoError(t, how.die(n))
					err := <-ended
					cancel()
					if err != nil {
						dying++
						require.NotEqual(t, volume.Final, volume.KindOf(err), err)
					}
					require.NoError(t, how.live(n))
					require.NoError(t, tearDownRepeatedly(work), "after %v", err)
					p.requireResult(o, call.deletes)
				}
				require.NotZero(t, dying, "the server never died during a call")
				require.Eventually(t, func() bool { return len(n.mountsBelowRoot()) == 0 }, 2*time.Minute, 50*time.Millisecond)
			})
		}
	}
}

// prepare returns a call that provisions a volume, or deletes one with files.
func (p *provisioning) prepare(o volume.VolumeOptions, deletes bool) func(context.Context) error {
	p.Helper()
	provisioner, err := p.plugin.NewProvisioner(o)
	require.NoError(p, err)
	if !deletes {
		return func(ctx context.Context) error {
			_, err := provisioner.Provision(ctx)
			return err
		}
	}
	pv := p.mustProvision(o)
	for i := range 20 {
		require.NoError(p, os.WriteFile(fmt.Sprintf("%s/%d", pv.Spec.NFS.Path, i), []byte("data"), 0o600))
	}
	deleter, err := p.plugin.NewDeleter(volume.NewSpecFromPersistentVolume(pv, false))
	require.NoError(p, err)
	return deleter.Delete
}

// requireResult verifies the files on the server after a successful call.
func (p *provisioning) requireResult(o volume.VolumeOptions, deletes bool) {
	p.Helper()
	provisioner, err := p.plugin.NewProvisioner(o)
	require.NoError(p, err)
	if !deletes {
		pv, err := provisioner.Provision(p.Context())
		require.NoError(p, err)
		info, err := os.Stat(pv.Spec.NFS.Path)
		require.NoError(p, err)
		require.Equal(p, os.FileMode(0o750), info.Mode().Perm())
		return
	}
	if o.StorageClass.Parameters["onDelete"] == "delete" {
		require.NoDirExists(p, filepath.Join(p.export, "ns-"+o.PVC.Name+"-"+o.PVName))
		return
	}
	require.NoDirExists(p, filepath.Join(p.export, "ns", o.PVC.Name))
	files := 0
	archives, err := filepath.Glob(filepath.Join(p.export, "archived-"+o.PVC.Name+"-"+o.PVName+"*"))
	require.NoError(p, err)
	for _, archive := range archives {
		entries, err := os.ReadDir(archive)
		require.NoError(p, err)
		files += len(entries)
	}
	require.Equal(p, 20, files, "%v", archives)
}

// TestNFSProvisionNoExport: an export that the server does not have is a transient error that names
// it, and nothing is made.
func TestNFSProvisionNoExport(t *testing.T) {
	n := newNode(t, nfs.Config{})
	n.export += "/none"
	p := n.provisioningOf(nfs.ProvisioningConfig{})
	_, err := p.provision(optionsOf("pvc-1", nil))
	require.ErrorContains(t, err, n.export)
	require.True(t, errors.Is(err, os.ErrNotExist), err)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.Empty(t, n.mountsBelowRoot())
	require.NoDirExists(t, n.export)
}

// TestNFSProvisionLeftover: a mount that a killed process left is unmounted by the next call.
func TestNFSProvisionLeftover(t *testing.T) {
	n := newNode(t, nfs.Config{})
	p := n.provisioningOf(nfs.ProvisioningConfig{})
	pv := p.mustProvision(optionsOf("pvc-1", nil))
	leftover := n.ownDir() + "/provision"
	entries, err := os.ReadDir(leftover)
	require.NoError(t, err)
	require.Empty(t, entries)
	other := n.exported("other")
	sum := sha256.Sum256([]byte("pvc-1"))
	key := hex.EncodeToString(sum[:16])
	require.NoError(t, os.MkdirAll(leftover+"/"+key, 0o750))
	require.NoError(t, n.mounts.Mount(n.patientContext(), mount.Request{
		Source: n.server.Source(other), Target: leftover + "/" + key, FSType: "nfs", Helper: mount.HelperNever,
	}))
	require.NoError(t, p.delete(pv))
	require.Empty(t, n.mountsBelowRoot())
	require.FileExists(t, other+"/precious")
	require.NoDirExists(t, pv.Spec.NFS.Path)
}
