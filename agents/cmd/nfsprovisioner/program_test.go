package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
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
		"aliases": {"-alias old:/k8s -alias=fd00::1:/a:/b", usual, func(o *options) {
			o.aliases = aliases{{Server: "old", Path: "/k8s"}, {Server: "fd00::1", Path: "/a:/b"}}
		}, ""},
		"glog":         {"-v=7 -logtostderr", usual, func(o *options) { o.verbosity = 7 }, ""},
		"glog's files": {"-logtostderr=false", usual, func(*options) {}, ""},
		"bad glog":     {"-v=many", usual, nil, "-v"},
		"bad alias":    {"-alias /k8s", usual, nil, "must be SERVER:PATH"},
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
	testbed.RequireCommandLines(t, run,
		testbed.CommandLine{Args: "", Status: 2, Prints: "; see -help"}, testbed.CommandLine{Args: "-help", Prints: "$NFS_SERVER"})
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
	*clustertest.Cluster
	server  *apitest.Server
	leases  *fake.Clientset
	export  string
	dir     string // of the program
	mounter *mounttest.Fake
}

func newRig(t *testing.T) *rig {
	t.Helper()
	server := apitest.NewServer(apitest.Config{})
	export := testbed.Dir(t)
	r := &rig{clustertest.New(t, server.Direct()), server, fake.NewClientset(), export, export, mounttest.NewFake(mount.Config{})}
	require.NoError(t, r.mounter.Mount(t.Context(), mount.Request{Source: "nas:/k8s", Target: r.export, FSType: "nfs"}))
	return r
}

// start runs a program until the end of the test.
func (r *rig) start() {
	r.Helper()
	r.Start(r.program().runLocked)
}

func (r *rig) program() *program {
	r.Helper()
	p, err := newProgram(r.Context(), options{
		provisioner: nfsSubdir, server: "nas", path: "/k8s", election: true, namespace: "ns", root: r.TempDir(), dir: r.dir, timeout: time.Minute,
	}, parts{
		cluster: r.server.Connect("provisioner"), leases: r.leases.CoordinationV1(), announce: r.Record, mounter: r.mounter, usualDir: "/none",
	}, io.Discard)
	require.NoError(r, err)
	return p
}

// claim creates a claim and its class.
func (r *rig) claim(name string, parameters map[string]string) *v1.PersistentVolumeClaim {
	r.Helper()
	class := r.CreateClass(clustertest.NewClass("class-"+name, nfsSubdir, parameters))
	return r.CreateClaim(name, "1Ki", class, func(*v1.PersistentVolumeClaim) {})
}

// TestProvisionAndDelete: a claim becomes a directory, which is archived after the claim is deleted.
func TestProvisionAndDelete(t *testing.T) {
	r := newRig(t)
	r.start()
	claim := r.claim("data", map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}", "mode": "0770"})
	pv := r.WaitUntilBound(claim)
	require.Equal(t, &v1.NFSVolumeSource{Server: "nas", Path: "/k8s/default/data"}, pv.Spec.NFS)
	require.Equal(t, nfsSubdir, pv.Annotations[provision.ProvisionedByAnnotation])
	info, err := os.Stat(r.export + "/default/data")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o770), info.Mode().Perm())
	require.NoError(t, os.WriteFile(r.export+"/default/data/file", nil, 0o600))
	r.Release(claim)
	r.WaitUntilDeleted(claim)
	require.FileExists(t, r.export+"/archived-data-"+pv.Name+"/file")
	require.NoDirExists(t, r.export+"/default/data")
}

// TestBadClass: an event of the claim names the parameter and its value, and nothing is made.
func TestBadClass(t *testing.T) {
	r := newRig(t)
	r.start()
	for name, test := range map[string]struct{ parameter, value, shown string }{
		"mode":    {"mode", "rwx", `"rwx"`},
		"unknown": {"colour", "red", `"red"`},
		"dot-dot": {"pathPattern", "a/../../b", `".."`},
		"nul":     {"pathPattern", "a\x00b", `x00b`},
		"long":    {"pathPattern", strings.Repeat("x/", 2048), "x/x/"},
	} {
		r.claim(name, map[string]string{test.parameter: test.value})
		r.RequireEvent("ProvisioningFailed", "class-"+name, "storageClass.parameters["+test.parameter+"]", test.shown)
	}
	entries, err := os.ReadDir(r.export)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestNoExport: an event of the claim names the export that the server does not have. Neither a volume nor
// a directory is made, and no mount is left.
func TestNoExport(t *testing.T) {
	r := newRig(t)
	r.dir = "" // the program mounts
	before, err := r.mounter.List(t.Context())
	require.NoError(t, err)
	r.mounter.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.ENOENT})
	r.start()
	r.claim("data", nil)
	r.RequireEvent("ProvisioningFailed", "class-data", "nas:/k8s", "no such file or directory")
	for _, dir := range []string{r.export, "/none"} {
		entries, _ := os.ReadDir(dir)
		require.Empty(t, entries)
	}
	mounted, err := r.mounter.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, mounted)
	require.Empty(t, r.server.Calls(apitest.Call{Verb: apitest.Create, Resource: "persistentvolumes"}))
}

// TestEndpoints: metrics and health are served while the program runs.
func TestEndpoints(t *testing.T) {
	r := newRig(t)
	p := r.program()
	listener, err := service.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	r.Start(func(ctx context.Context) error { return p.runWith(ctx, listener) })
	r.WaitUntilBound(r.claim("data", nil))
	r.RequireEndpoints(listener.Addr(), provision.ProvisionTotal)
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

// TestVerbosity: -v is the verbosity of the client of the API server.
func TestVerbosity(t *testing.T) {
	t.Cleanup(func() { _ = setVerbosity(0) })
	require.False(t, klog.V(6).Enabled())
	require.NoError(t, setVerbosity(6))
	require.True(t, klog.V(6).Enabled())
	require.False(t, klog.V(7).Enabled())
}
