package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// nfsSubdir is the name of the provisioner in most manifests of that program.
const nfsSubdir = "k8s-sigs.io/nfs-subdir-external-provisioner"

func TestOptions(t *testing.T) {
	usual := map[string]string{"PROVISIONER_NAME": nfsSubdir, "NFS_SERVER": "nas", "NFS_PATH": "/k8s", "POD_NAMESPACE": "ns"}
	for name, test := range map[string]struct {
		args string
		env  map[string]string
		want func(*options)
		err  string
	}{
		"environment": {"", usual, func(*options) {}, ""},
		"flags": {"-provisioner a -server b -path /c -namespace d -leader-election=false -timeout 1s", usual, func(o *options) {
			*o = options{provisioner: "a", server: "b", path: "/c", namespace: "d", root: o.root, timeout: time.Second}
		}, ""},
		"no election":  {"", with(usual, "ENABLE_LEADER_ELECTION", "false"), func(o *options) { o.election = false }, ""},
		"kubeconfig":   {"", with(usual, "KUBECONFIG", "/k"), func(o *options) { o.kubeconfig = "/k" }, ""},
		"bad election": {"", with(usual, "ENABLE_LEADER_ELECTION", "maybe"), nil, `ENABLE_LEADER_ELECTION must be true or false, got "maybe"`},
		"no name":      {"", with(usual, "PROVISIONER_NAME", ""), nil, "-provisioner: required"},
		"no server":    {"", with(usual, "NFS_SERVER", ""), nil, "-server: required"},
		"no path":      {"", with(usual, "NFS_PATH", ""), nil, "-path: required"},
		"timeout":      {"-timeout 0s", usual, nil, "-timeout must be more than 0"},
		"argument":     {"more", usual, nil, `unexpected argument "more"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseOptions(strings.Fields(test.args), func(name string) string { return test.env[name] }, io.Discard)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			want := options{provisioner: nfsSubdir, server: "nas", path: "/k8s", namespace: "ns", election: true,
				root: "/run/volumekit/nfsprovisioner", timeout: 2 * time.Minute}
			test.want(&want)
			require.Equal(t, want, got)
		})
	}
	var out bytes.Buffer
	require.Equal(t, 2, run(t.Context(), nil, func(string) string { return "" }, io.Discard, &out))
	require.Contains(t, out.String(), "; see -help")
	require.Equal(t, 0, run(t.Context(), []string{"-help"}, func(string) string { return "" }, &out, io.Discard))
	require.Contains(t, out.String(), "$NFS_SERVER")
}

func with(env map[string]string, name, value string) map[string]string {
	changed := map[string]string{name: value}
	for other, text := range env {
		if other != name {
			changed[other] = text
		}
	}
	return changed
}

// A rig runs programs on one API server, with one export.
type rig struct {
	*testing.T
	server  *apitest.Server
	leases  *fake.Clientset
	export  string
	mounter *mounttest.Fake

	mu     sync.Mutex
	events []string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	export, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	r := &rig{T: t, server: apitest.NewServer(apitest.Config{}), leases: fake.NewClientset(), export: export, mounter: mounttest.NewFake(mount.Config{})}
	require.NoError(t, r.mounter.Mount(t.Context(), mount.Request{Source: "nas:/k8s", Target: export, FSType: "nfs"}))
	return r
}

// start runs a program until the end of the test, or until end is called.
func (r *rig) start(change func(*options)) (p *program, end func()) {
	r.Helper()
	o := options{provisioner: nfsSubdir, server: "nas", path: "/k8s", election: true, namespace: "ns", root: r.TempDir(),
		dir: r.export, timeout: time.Minute}
	change(&o)
	p, err := newProgram(r.Context(), o, parts{
		cluster: r.server.Connect("provisioner"), leases: r.leases.CoordinationV1(), announce: r.record, mounter: r.mounter, usualDir: "/none",
	}, io.Discard)
	require.NoError(r, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		require.NoError(r, <-ended)
		require.NoError(r, p.lock.Close())
	})
	r.Cleanup(end)
	return p, end
}

func (r *rig) record(e api.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e.Reason+" "+e.Message)
}

func (r *rig) hasEvent(parts ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, event := range r.events {
		found := true
		for _, part := range parts {
			found = found && strings.Contains(event, part)
		}
		if found {
			return true
		}
	}
	return false
}

// claim creates a claim and its class, with the request of the binder.
func (r *rig) claim(name string, parameters map[string]string) *v1.PersistentVolumeClaim {
	r.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "class-" + name}, Provisioner: nfsSubdir, Parameters: parameters}
	_, err := r.server.Direct().StorageClasses().Create(r.Context(), class, metav1.CreateOptions{})
	require.NoError(r, err)
	claim, err := r.server.Direct().PersistentVolumeClaims("default").Create(r.Context(), &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{provision.ProvisionerAnnotation: nfsSubdir}},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name,
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
			Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Ki")}},
		},
	}, metav1.CreateOptions{})
	require.NoError(r, err)
	return claim
}

// volume waits for the volume of a claim.
func (r *rig) volume(claim *v1.PersistentVolumeClaim) (pv *v1.PersistentVolume) {
	r.Helper()
	require.Eventually(r, func() bool {
		var err error
		pv, err = r.server.Direct().PersistentVolumes().Get(r.Context(), "pvc-"+string(claim.UID), metav1.GetOptions{})
		return err == nil
	}, time.Minute, time.Millisecond)
	return pv
}

// release deletes a claim that no pod uses, and releases its volume as the binder does.
func (r *rig) release(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
	r.Helper()
	claims, volumes := r.server.Direct().PersistentVolumeClaims(claim.Namespace), r.server.Direct().PersistentVolumes()
	require.NoError(r, claims.Delete(r.Context(), claim.Name, metav1.DeleteOptions{}))
	require.Eventually(r, func() bool {
		left, err := claims.Get(r.Context(), claim.Name, metav1.GetOptions{})
		if err == nil {
			left.Finalizers = slices.DeleteFunc(left.Finalizers, func(f string) bool { return f == "kubernetes.io/pvc-protection" })
			_, _ = claims.Update(r.Context(), left, metav1.UpdateOptions{})
		}
		return apierrors.IsNotFound(err)
	}, time.Minute, time.Millisecond)
	require.Eventually(r, func() bool { // the controller may write at the same time
		stored, err := volumes.Get(r.Context(), pv.Name, metav1.GetOptions{})
		require.NoError(r, err)
		stored.Status.Phase = v1.VolumeReleased
		_, err = volumes.UpdateStatus(r.Context(), stored, metav1.UpdateOptions{})
		return err == nil
	}, time.Minute, time.Millisecond)
}

// TestProvisionAndDelete: a claim becomes a directory, which is archived after the claim is deleted.
func TestProvisionAndDelete(t *testing.T) {
	r := newRig(t)
	r.start(func(*options) {})
	claim := r.claim("data", map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}", "mode": "0770"})
	pv := r.volume(claim)
	require.Equal(t, &v1.NFSVolumeSource{Server: "nas", Path: "/k8s/default/data"}, pv.Spec.NFS)
	require.Equal(t, nfsSubdir, pv.Annotations[provision.ProvisionedByAnnotation])
	info, err := os.Stat(r.export + "/default/data")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o770), info.Mode().Perm())
	require.NoError(t, os.WriteFile(r.export+"/default/data/file", nil, 0o600))
	r.release(claim, pv)
	require.Eventually(t, func() bool {
		_, err := os.Stat(r.export + "/archived-data-" + pv.Name + "/file")
		return err == nil
	}, time.Minute, time.Millisecond)
	require.NoDirExists(t, r.export+"/default/data")
}

// TestBadClass: an event of the claim names the parameter and its value, and nothing is made.
func TestBadClass(t *testing.T) {
	r := newRig(t)
	r.start(func(*options) {})
	r.claim("data", map[string]string{"mode": "rwx"})
	require.Eventually(t, func() bool { return r.hasEvent("ProvisioningFailed", "storageClass.parameters[mode]", `"rwx"`) }, time.Minute, time.Millisecond)
	entries, err := os.ReadDir(r.export)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestEndpoints: health and metrics are served while the program runs.
func TestEndpoints(t *testing.T) {
	r := newRig(t)
	p, _ := r.start(func(*options) {})
	r.volume(r.claim("data", nil))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- p.serve(ctx, listener) }()
	for path, want := range map[string]string{"/healthz": "ok\n", "/metrics": "controller_persistentvolumeclaim_provision_total"} {
		require.EventuallyWithT(t, func(c *assert.CollectT) { // the controller counts after it has stored
			response, err := http.Get("http://" + listener.Addr().String() + path)
			require.NoError(c, err)
			text, err := io.ReadAll(response.Body)
			require.NoError(c, err)
			require.NoError(c, response.Body.Close())
			require.Equal(c, http.StatusOK, response.StatusCode)
			require.Contains(c, string(text), want)
		}, time.Minute, 5*time.Millisecond)
	}
	cancel()
	require.NoError(t, <-served)
}

// TestDir: without a mount of NFS at -dir the program does not start, and without one at the usual
// directory it mounts by itself.
func TestDir(t *testing.T) {
	r := newRig(t)
	for _, test := range []struct{ dir, usual, want, err string }{
		{r.export, "", r.export, ""},
		{"", r.export, r.export, ""},
		{"", r.export + "/none", "", ""},
		{filepath.Dir(r.export), "", "", "not a mount point of NFS"},
	} {
		got, err := exportDir(t.Context(), r.mounter, test.dir, test.usual)
		if test.err != "" {
			require.ErrorContains(t, err, test.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, test.want, got)
	}
}
