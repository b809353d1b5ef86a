package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/examples/internal/cli"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// fakes are a machine where root mounts on an in-memory kernel.
func fakes(s *session) deps {
	s.t.Setenv("TMPDIR", s.tmp)
	return deps{
		stdin:   strings.NewReader(""),
		root:    true,
		mounter: mounttest.NewFake(mount.Config{}),
		fake:    mounttest.NewFake(mount.Config{}),
		namespace: func(string, ...string) *exec.Cmd {
			return &exec.Cmd{Err: syscall.EPERM}
		},
		privatize: func() error { return nil },
	}
}

func (s *session) inProcess(ctx context.Context, d deps, args ...string) result {
	var stdout, stderr bytes.Buffer
	status := run(ctx, args, &stdout, &stderr, d)
	return result{stdout.String(), stderr.String(), status}
}

func TestDryRun(t *testing.T) {
	for name, change := range map[string]func(*deps) []string{
		"asked for": func(*deps) []string { return []string{"-dry-run"} },
		"no namespace": func(d *deps) []string {
			d.root = false
			return nil
		},
		"useless namespace": func(d *deps) []string {
			d.inside = true
			d.privatize = func() error { return syscall.EACCES }
			return nil
		},
		"namespace where nothing can be mounted": func(d *deps) []string {
			d.inside = true
			d.mounter.(*mounttest.Fake).Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.EPERM})
			return nil
		},
		"root who may not mount": func(d *deps) []string {
			d.mounter.(*mounttest.Fake).Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.EPERM})
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			d := fakes(s)
			r := s.inProcess(t.Context(), d, change(&d)...)
			require.Equal(t, 0, r.status, r)
			isDry(t, r)
			require.Contains(t, r.stdout, "dry run: Nothing is mounted, this is an in-memory kernel: ")
			require.Contains(t, r.stdout, "dry run: data: wrote a file, and read the same in disks/a.")
			require.Contains(t, r.stdout, "dry run: config: a write is refused: read-only file system.")
			require.Contains(t, r.stdout, "dry run: Took down 9 volumes: no mount and no directory is left.")
			s.nothingIsLeft()
			require.NotEmpty(t, d.fake.Log())
		})
	}
}

// TestLeftOut: a volume without a source is an emptyDir, as it is to the API server; one
// whose source is missing and optional is empty.
func TestLeftOut(t *testing.T) {
	s := newSession(t)
	d := fakes(s)
	d.stdin = strings.NewReader(podWithVolume("{name: a}\n  - {name: b, configMap: {name: c, optional: true}}"))
	r := s.inProcess(t.Context(), d, "-dry-run", "-f", "-")
	require.Equal(t, 0, r.status, r)
	require.Contains(t, r.stdout, "dry run: a: wrote a file, and read it again.")
	require.Contains(t, r.stdout, "dry run: b: holds nothing, 0 bytes.")
	s.nothingIsLeft()
}

func TestBadManifests(t *testing.T) {
	s := newSession(t)
	s.mkdir("disks", "one")
	require.NoError(t, os.Symlink("one", filepath.Join(s.dir, "disks", "link")))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "disks", "file"), nil, 0o600))
	for name, bad := range badManifests {
		d := fakes(s)
		r := s.inProcess(t.Context(), d, "-dry-run", "-f", s.manifest(bad.text), "-disks", filepath.Join(s.dir, "disks"))
		require.Equal(t, 1, r.status, name)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), "%s: %s", name, r.stderr)
		require.Contains(t, r.stderr, "dry run: podvolumes: "+s.dir+"/test.yaml", name)
		require.Contains(t, r.stderr, strings.ReplaceAll(bad.says, "$DIR", s.dir), name)
		require.NotContains(t, r.stderr, "hunter2", name)
		require.Empty(t, r.stdout, name)
		for _, action := range d.fake.Log() {
			require.NotEqual(t, mounttest.OpMount, action.Op, name)
		}
		s.nothingIsLeft()
	}
}

func TestBadCommandLines(t *testing.T) {
	s := newSession(t)
	for _, args := range []string{
		"-no-such-flag", "argument", "-down", "-down -root /x -keep", "-down -root /x -f y", "-down -root /x -dry-run",
		"-keep -dry-run", "-disks /x", "-f x -disks /x,", "-wait -1s", "-wait x",
	} {
		r := s.inProcess(t.Context(), fakes(s), strings.Fields(args)...)
		require.Equal(t, 2, r.status, args)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), args)
		require.Empty(t, r.stdout)
	}
	r := s.inProcess(t.Context(), fakes(s), "-help")
	require.Equal(t, 0, r.status)
	require.Contains(t, r.stdout, "-disks DIR")
	s.nothingIsLeft()
}

func TestBadFiles(t *testing.T) {
	s := newSession(t)
	good := s.manifest(podWith("template", "one") + diskAt("one", "$DIR/one"))
	for _, args := range []string{
		"-f " + s.dir,
		"-f " + filepath.Join(s.dir, "none"),
		"-f " + good + " -disks " + filepath.Join(s.dir, "none"),
		"-root " + good,
		"-root " + filepath.Join(s.dir, "none", "none"),
	} {
		r := s.inProcess(t.Context(), fakes(s), strings.Fields(args)...)
		require.Equal(t, 1, r.status, args)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
		s.nothingIsLeft()
	}
	d := fakes(s)
	d.stdin = io.LimitReader(endless{}, 1<<30)
	r := s.inProcess(t.Context(), d, "-f", "-")
	require.Contains(t, r.stderr, "more than 1048576 bytes")
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	return len(p), nil
}

// TestFaults: whatever the kernel refuses, the status tells, and what can be taken
// down is.
func TestFaults(t *testing.T) {
	failure := errors.New("injected")
	pods := "root/pods/default_web/volumes/kubernetes.io~local-volume/"
	for name, test := range map[string]struct {
		fault mounttest.Fault
		says  string
	}{
		"mount":           {mounttest.Fault{Op: mounttest.OpMount, Path: pods + "disk-b", Err: failure}, "(PersistentVolume/disk-b): set up: "},
		"mount, late":     {mounttest.Fault{Op: mounttest.OpMount, Path: pods + "disk-b", Err: failure, After: true}, "(PersistentVolume/disk-b): set up: "},
		"list":            {mounttest.Fault{Op: mounttest.OpList, Err: failure, Times: 1}, "list: injected"},
		"unmount":         {mounttest.Fault{Op: mounttest.OpUnmount, Path: pods + "disk-a", Err: failure}, "left: mount "},
		"unmount, late":   {mounttest.Fault{Op: mounttest.OpUnmount, Path: pods + "disk-a", Err: failure, After: true, Times: 1}, "left: directory "},
		"is mount point":  {mounttest.Fault{Op: mounttest.OpIsMountPoint, Path: pods + "disk-a", Err: failure}, "(PersistentVolume/disk-a): set up: "},
		"list, the proof": {mounttest.Fault{Op: mounttest.OpList, Err: failure}, "list: injected"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			d := fakes(s)
			fake := d.mounter.(*mounttest.Fake)
			if test.fault.Path != "" {
				test.fault.Path = filepath.Join(s.tmp, test.fault.Path)
			}
			fake.Inject(test.fault)
			root := filepath.Join(s.tmp, "root")
			r := s.inProcess(t.Context(), d, "-root", root)
			require.Equal(t, 1, r.status, r)
			require.Contains(t, r.stderr, test.says)
			require.NotContains(t, r.stdout, "disk-a: wrote")

			fake.ClearFaults()
			r = s.inProcess(t.Context(), d, "-down", "-root", root)
			require.Equal(t, 0, r.status, r)
			s.nothingIsLeft()
			table, err := fake.List(t.Context())
			require.NoError(t, err)
			require.Len(t, table, 1)
		})
	}
}

func TestInterruptWhileMounting(t *testing.T) {
	s := newSession(t)
	d := fakes(s)
	fake := d.mounter.(*mounttest.Fake)
	target := filepath.Join(s.tmp, "root/pods/default_web/volumes/kubernetes.io~local-volume/disk-b")
	fake.Inject(mounttest.Fault{Op: mounttest.OpMount, Path: target, Delay: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(target); err == nil {
				cancel() // what is made before the mount is there
			}
		}
	}()
	r := s.inProcess(ctx, d, "-root", filepath.Join(s.tmp, "root"))
	require.Equal(t, 1, r.status, r)
	require.Equal(t, "podvolumes: interrupted\n", r.stderr)
	require.Contains(t, r.stdout, "Took down")
	s.nothingIsLeft()
}

// writable is a kernel that takes read-only for a suggestion.
type writable struct{ *mounttest.Fake }

func (w writable) Mount(ctx context.Context, req mount.Request) error {
	req.Options = nil
	return w.Fake.Mount(ctx, req)
}

func TestReadOnlyIsChecked(t *testing.T) {
	s := newSession(t)
	d := fakes(s)
	var stdout, stderr bytes.Buffer
	c := &console{stdout: &stdout, stderr: &stderr}
	perform(t.Context(), options{}, d, c, place{Interface: writable{d.fake}, resolve: d.fake.RealPath})
	require.Equal(t, 1, c.status())
	require.Contains(t, stderr.String(), "volume config: mounted rw")
	s.nothingIsLeft()
}

// TestSourceIsChecked: what is written to a directory where nothing is mounted,
// whatever the mount table says, is not found at the source.
func TestSourceIsChecked(t *testing.T) {
	s := newSession(t)
	r := s.inProcess(t.Context(), fakes(s))
	require.Equal(t, 1, r.status, r)
	require.Contains(t, r.stderr, "volume data: open ")
	s.nothingIsLeft()
}

func TestOneLine(t *testing.T) {
	require.Equal(t, "a b c?[31m", cli.OneLine(" a\n\tb\r\n c\x1b[31m\n"))
	require.Len(t, cli.OneLine(strings.Repeat("x", 10_000)), 803)
	require.Equal(t, `"a\nb"`, plain("a\nb"))
	require.Equal(t, "/a b", plain("/a b"))
	require.Equal(t, "/a/b-1.c", quoted("/a/b-1.c"))
	require.Equal(t, `'it'\''s'`, quoted("it's"))
}
