package main

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/api/resource"
)

// fakes are a machine where root mounts on an in-memory kernel.
func fakes(fake *mounttest.Fake) deps {
	return deps{
		root:    true,
		mounter: func(options) mount.Interface { return fake },
		demo: func(_ context.Context, o options, c *console) error {
			c.printf("demo %s\n", o.kernel)
			return nil
		},
	}
}

func inProcess(ctx context.Context, d deps, args ...string) result {
	var stdout, stderr bytes.Buffer
	status := run(ctx, args, &stdout, &stderr, d)
	return result{stdout.String(), stderr.String(), status}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions(strings.Fields("-server nas -path /x -ro -o vers=4.1,soft -o noatime -timeout 5s"), nil)
	require.NoError(t, err)
	require.Equal(t, options{
		server: "nas", path: "/x", readOnly: true,
		mountOptions: cli.Options{"vers=4.1", "soft", "noatime"}, timeout: 5 * time.Second,
	}, o)
	spec := o.spec()
	require.NoError(t, spec.Validate())
	require.True(t, spec.IsReadOnly())
	require.Equal(t, []string{"vers=4.1", "soft", "noatime"}, spec.MountOptions())

	o.mountOptions, o.readOnly = nil, false
	spec = o.spec()
	require.NoError(t, spec.Validate())
	require.NotNil(t, spec.Volume, "what needs no persistent volume is written in the pod")
	require.False(t, spec.IsReadOnly())
	require.Equal(t, "nas", spec.Volume.NFS.Server)
	require.Equal(t, "/x", spec.Volume.NFS.Path)
}

func TestBadCommandLines(t *testing.T) {
	dir := tempDir(t)
	for _, args := range []string{
		"", "-no-such-flag", "-server nas", "-path /x", "-server nas -path /x argument",
		"-server nas -path /x -timeout 0s", "-server nas -path /x -kernel 6.1", "-demo -server nas", "-demo -ro",
		"-demo -o soft", "-demo -path /x", "-demo -timeout 1s", "-demo argument",
	} {
		r := inProcess(t.Context(), fakes(mounttest.NewFake(mount.Config{})), strings.Fields(args)...)
		require.Equal(t, 2, r.status, args)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), args)
		require.Empty(t, r.stdout)
	}
	r := inProcess(t.Context(), fakes(nil), "-timeout", "5")
	require.Contains(t, r.stderr, "a time is a number with a unit, such as 90s, 5m or 1h30m")
	r = inProcess(t.Context(), fakes(nil), "-help")
	require.Equal(t, 0, r.status)
	require.Contains(t, r.stdout, "-server HOST")
	require.Contains(t, r.stdout, "a TIME such as 90s, 5m or 1h30m (default 30s)")
	requireEmpty(t, dir)
}

func TestDemoFlag(t *testing.T) {
	d := fakes(nil)
	d.root = false
	r := inProcess(t.Context(), d, "-demo", "-kernel", "6.1")
	require.Equal(t, result{"demo 6.1\n", "", 0}, r)
	d.demo = func(context.Context, options, *console) error { return errors.New("no\nkernel") }
	require.Equal(t, result{"", "nfs: no kernel\n", 1}, inProcess(t.Context(), d, "-demo"))
}

func TestNotRoot(t *testing.T) {
	d := fakes(nil)
	d.root = false
	r := inProcess(t.Context(), d, "-server", "nas", "-path", "/x")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stderr, "-demo")
}

// onLinux skips a test that queries a file system's usage on other systems.
func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("mounts are for Linux")
	}
}

func TestMountAndShow(t *testing.T) {
	onLinux(t)
	dir, fake := tempDir(t), mounttest.NewFake(mount.Config{})
	r := inProcess(t.Context(), fakes(fake), "-server", "nas", "-path", "/x", "-ro", "-o", "noatime")
	require.Equal(t, 0, r.status, r)
	require.Empty(t, r.stderr)
	for _, line := range []string{
		`Mounted for pod example, below ` + dir + `/nfs-example-\d+:`,
		`  path     pods/default_example/volumes/kubernetes.io~nfs/export`,
		`  source   nas:/x`,
		`  type     nfs4?`,
		`  flags    ro,\S*noatime\S*`,
		`  options  .*`,
		`  files    none`,
		`  usage    \S+ \S+ of .* available.*`,
		`example: TearDown with 30s: after \S+: done.`,
		`No mount and no directory is left.`,
	} {
		require.Regexp(t, `(?m)^`+line+`$`, r.stdout)
	}
	requireEmpty(t, dir)
}

// TestFaults checks that the exit status reports each failed system call, and that the
// program takes down all volumes that it can.
func TestFaults(t *testing.T) {
	onLinux(t)
	failure := errors.New("injected")
	for name, test := range map[string]struct {
		fault mounttest.Fault
		left  bool
	}{
		"mount":   {mounttest.Fault{Op: mounttest.OpMount, Err: failure}, false},
		"late":    {mounttest.Fault{Op: mounttest.OpMount, Err: failure, After: true}, false},
		"unmount": {mounttest.Fault{Op: mounttest.OpUnmount, Err: failure}, true},
		"list":    {mounttest.Fault{Op: mounttest.OpList, Err: failure}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, fake := tempDir(t), mounttest.NewFake(mount.Config{})
			fake.Inject(test.fault)
			r := inProcess(t.Context(), fakes(fake), "-server", "nas", "-path", "/x")
			require.Equal(t, 1, r.status, r)
			require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
			require.Contains(t, r.stderr, "injected")
			if test.left {
				require.Contains(t, r.stderr, "left: mount "+dir)
			} else {
				requireEmpty(t, dir)
			}
		})
	}
}

// TestInterrupt: an interrupted program leaves no directory.
func TestInterrupt(t *testing.T) {
	dir, fake := tempDir(t), mounttest.NewFake(mount.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := inProcess(ctx, fakes(fake), "-server", "nas", "-path", "/x")
	require.Equal(t, 1, r.status, r)
	require.Equal(t, "nfs: interrupted\n", r.stderr)
	requireEmpty(t, dir)
}

// TestRefused: a refused volume mounts nothing and leaves no directory.
func TestRefused(t *testing.T) {
	dir, fake := tempDir(t), mounttest.NewFake(mount.Config{})
	for _, args := range []string{"-server -x -path /x", "-server nas -path x", "-server nas -path /x -o bind"} {
		r := inProcess(t.Context(), fakes(fake), strings.Fields(args)...)
		require.Equal(t, 1, r.status, args)
		require.Contains(t, r.stderr, "nfs: spec.", args)
		requireEmpty(t, dir)
	}
	require.Empty(t, mounts(fake))
}

func mounts(fake *mounttest.Fake) (mounts []mounttest.Action) {
	for _, action := range fake.Log() {
		if action.Op == mounttest.OpMount {
			mounts = append(mounts, action)
		}
	}
	return mounts
}

// TestQueryEndsWithContext checks that an unanswered question ends with its context.
func TestQueryEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := make(chan struct{})
	defer close(answer)
	why := errors.New("enough")
	cancel(why)
	_, err := queryInTime(ctx, func() (string, error) { <-answer; return "late", nil })
	require.ErrorIs(t, err, why)
	text, err := queryInTime(t.Context(), func() (string, error) { return "soon", nil })
	require.NoError(t, err)
	require.Equal(t, "soon", text)
}

func TestUsage(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 30: "3.0 GiB", 1 << 60: "1024.0 PiB",
	} {
		require.Equal(t, want, size(resource.NewQuantity(bytes, resource.BinarySI)))
	}
	require.Equal(t, "? of ? used, ? available", usage(&volume.Metrics{}))
}

func TestFewNames(t *testing.T) {
	dir := t.TempDir()
	for i, want := range []string{"none", "a", "a, b", "a, b, c"} {
		got, err := fewNames(t.Context(), dir)
		require.NoError(t, err)
		require.Equal(t, want, got)
		touch(t, dir, string(rune('a'+i)))
	}
	touch(t, dir, "e", "f", "g")
	got, err := fewNames(t.Context(), dir)
	require.NoError(t, err)
	require.Regexp(t, `^(\w, ){5}and more$`, got)
	_, err = fewNames(t.Context(), dir+"/none")
	require.Error(t, err)
}
