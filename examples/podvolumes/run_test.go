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
	"github.com/volumekit/volumekit/examples/internal/machine"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// fakes are a machine where root mounts on an in-memory kernel.
func fakes(s *session) machine.Machine {
	s.t.Setenv("TMPDIR", s.tmp)
	return machine.Machine{
		Program: program,
		Stdin:   strings.NewReader(""),
		Root:    true,
		Mounter: mounttest.NewFake(mount.Config{}),
		Fake:    mounttest.NewFake(mount.Config{}),
		Namespace: func(string, ...string) *exec.Cmd {
			return &exec.Cmd{Err: syscall.EPERM}
		},
		Privatize: func() error { return nil },
	}
}

func (s *session) inProcess(ctx context.Context, d machine.Machine, args ...string) result {
	var stdout, stderr bytes.Buffer
	status := run(ctx, args, &stdout, &stderr, d)
	return result{unfolded(s.t, stdout.String()), stderr.String(), status}
}

func TestDryRun(t *testing.T) {
	for name, change := range map[string]func(*machine.Machine) []string{
		"asked for": func(*machine.Machine) []string { return []string{"-dry-run"} },
		"no namespace": func(d *machine.Machine) []string {
			d.Root = false
			return nil
		},
		"useless namespace": func(d *machine.Machine) []string {
			d.Inside = true
			d.Privatize = func() error { return syscall.EACCES }
			return nil
		},
		"namespace where nothing can be mounted": func(d *machine.Machine) []string {
			d.Inside = true
			d.Mounter.(*mounttest.Fake).Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.EPERM})
			return nil
		},
		"root who may not mount": func(d *machine.Machine) []string {
			d.Mounter.(*mounttest.Fake).Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.EPERM})
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
			s.requireNothingLeft()
			require.NotEmpty(t, d.Fake.Log())
		})
	}
}

// TestMissingSources: a volume without a source is an emptyDir, as it is to the API server; one
// whose source is missing and optional is empty.
func TestMissingSources(t *testing.T) {
	s := newSession(t)
	d := fakes(s)
	d.Stdin = strings.NewReader(podWithVolume("{name: a}\n  - {name: b, configMap: {name: c, optional: true}}"))
	r := s.inProcess(t.Context(), d, "-dry-run", "-f", "-")
	require.Equal(t, 0, r.status, r)
	require.Contains(t, r.stdout, "dry run: a: wrote a file, and read it again.")
	require.Contains(t, r.stdout, "dry run: b: holds nothing, 0 bytes.")
	s.requireNothingLeft()
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
		for _, action := range d.Fake.Log() {
			require.NotEqual(t, mounttest.OpMount, action.Op, name)
		}
		s.requireNothingLeft()
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
	s.requireNothingLeft()
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
		s.requireNothingLeft()
	}
	d := fakes(s)
	d.Stdin = io.LimitReader(endless{}, 1<<30)
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

// TestFaults checks that the exit status reports each failed system call, and that the
// program takes down all volumes that it can.
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
		"is mount point":  {mounttest.Fault{Op: mounttest.OpIsMountPoint, Path: pods + "disk-a", Err: failure}, "disk-a: take down: "},
		"list, the proof": {mounttest.Fault{Op: mounttest.OpList, Err: failure}, "list: injected"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			d := fakes(s)
			fake := d.Mounter.(*mounttest.Fake)
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
			s.requireNothingLeft()
			table, err := fake.List(t.Context())
			require.NoError(t, err)
			require.Len(t, table, 1)
		})
	}
}

func TestInterruptWhileMounting(t *testing.T) {
	s := newSession(t)
	d := fakes(s)
	fake := d.Mounter.(*mounttest.Fake)
	target := filepath.Join(s.tmp, "root/pods/default_web/volumes/kubernetes.io~local-volume/disk-b")
	fake.Inject(mounttest.Fault{Op: mounttest.OpMount, Path: target, Delay: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(target); err == nil {
				cancel() // the directory is made before the mount
			}
		}
	}()
	r := s.inProcess(ctx, d, "-root", filepath.Join(s.tmp, "root"))
	require.Equal(t, 1, r.status, r)
	require.Equal(t, "podvolumes: interrupted\n", r.stderr)
	require.Contains(t, r.stdout, "Took down")
	s.requireNothingLeft()
}

// writable is a kernel that takes read-only for a suggestion.
type writable struct{ mount.Interface }

func (w writable) Mount(ctx context.Context, req mount.Request) error {
	req.Options = nil
	return w.Interface.Mount(ctx, req)
}

func TestReadOnlyIsChecked(t *testing.T) {
	s := newSession(t)
	d := fakes(s)
	var stdout, stderr bytes.Buffer
	c := &cli.Console{Stdout: &stdout, Stderr: &stderr}
	perform(t.Context(), options{}, d.Stdin, c, machine.Kernel{Interface: writable{d.Fake}, RealPath: d.Fake.RealPath})
	require.Equal(t, 1, c.Status())
	require.Contains(t, stderr.String(), "volume config: the mount is rw")
	s.requireNothingLeft()
}

// TestSourceIsChecked checks that the program looks for its file at the volume's source: a
// file written to a directory without a real mount, as with the fake mounter, is not there.
func TestSourceIsChecked(t *testing.T) {
	s := newSession(t)
	r := s.inProcess(t.Context(), fakes(s))
	require.Equal(t, 1, r.status, r)
	require.Contains(t, r.stderr, "volume data: open ")
	s.requireNothingLeft()
}

// TestClaimTwice: a claim that the pod names to read and to write is two views, and one
// that it names twice to write is one directory.
func TestClaimTwice(t *testing.T) {
	for name, readOnly := range map[string]string{"views": ", readOnly: true", "one": ""} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			s.mkdir("disks", "one")
			text := podWithVolume("{name: again, persistentVolumeClaim: {claimName: x"+readOnly+"}}\n  - {name: first, persistentVolumeClaim: {claimName: x}}") +
				claimFor("x", "one") + diskAt("one", "$DIR/disks/one")
			r := s.run("-disks", filepath.Join(s.dir, "disks"), "-f", s.manifest(text))
			require.Equal(t, 0, r.status, r.stderr)
			isReal(t, r)
			require.Contains(t, r.stdout, "first: wrote a file")
			if readOnly != "" {
				require.Contains(t, r.stdout, "again: a write is refused")
				require.Contains(t, r.stdout, "kubernetes.io~local-volume/one~r")
			} else {
				require.Contains(t, r.stdout, "again: wrote a file")
				require.NotContains(t, r.stdout, "~r")
			}
			s.requireNothingLeft()
		})
	}
}
