package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
)

const proof = "no mount and no directory is left.\n"

// asEachUser runs a test as the current user, and for root a second time as an ordinary user.
func asEachUser(t *testing.T, test func(*testing.T, *session)) {
	t.Run("as we are", func(t *testing.T) { test(t, newSession(t)) })
	t.Run("ordinary user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("as we are")
		}
		s := newSession(t)
		const nobody = 65534
		require.NoError(t, os.Chown(s.tmp, nobody, nobody))
		coverage := s.mkdir("coverage")
		s.setup = func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, "GOCOVERDIR="+coverage)
			cmd.Path = "/proc/self/exe" // the test's binary may be where only root finds it
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		if err := s.command("-help").Run(); errors.Is(err, os.ErrPermission) {
			mounttest.SkipWithout(t, "reach", fmt.Sprintf("an ordinary user cannot get there: %v", err))
		}
		test(t, s)
	})
}

func TestBuiltinManifest(t *testing.T) {
	asEachUser(t, func(t *testing.T, s *session) {
		r := s.run()
		require.Equal(t, 0, r.status, r)
		require.Empty(t, r.stderr)
		isReal(t, r)
		lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
		require.Len(t, lines, 22, r.stdout)
		require.Regexp(t, "^(Root|Not root on this machine): mounting ", lines[0])
		require.Regexp(t, "^Pod default/web, below "+s.tmp+"/podvolumes-[0-9]+/pods/default_web:$", lines[1])
		for i, want := range []string{
			"VOLUME MODE DIRECTORY MOUNTED FROM",
			"data rw volumes/kubernetes.io~local-volume/disk-a disks/a",
			"config ro volumes/kubernetes.io~local-volume/disk-b disks/b",
			"scratch rw volumes/kubernetes.io~empty-dir/scratch a directory of its own",
			"cache rw volumes/kubernetes.io~empty-dir/cache memory (tmpfs)",
			"logs rw volumes/kubernetes.io~host-path/logs disks/logs",
			"settings ro volumes/kubernetes.io~configmap/settings a directory of its own",
			"password ro volumes/kubernetes.io~secret/password memory (tmpfs)",
			"self ro volumes/kubernetes.io~downward-api/self memory (tmpfs)",
			"together ro volumes/kubernetes.io~projected/together memory (tmpfs)",
			"data: wrote a file, and read the same in disks/a.",
			"config: a write is refused: read-only file system.",
			"scratch: wrote a file, and read it again.",
			"cache: wrote a file, and read it again.",
			"logs: wrote a file, and read the same in disks/logs.",
			"settings: holds colour, motto, 43 bytes.",
			"password: holds password, 28 bytes.",
			"self: holds labels, name, 12 bytes.",
			"together: holds namespace, password, settings/colour, 40 bytes.",
			"Took down 9 volumes: no mount and no directory is left.",
		} {
			line := strings.Join(strings.Fields(lines[2+i]), " ")
			require.True(t, line == want || strings.HasPrefix(line, want+" ("), "%s: want %s", line, want)
		}
		require.NotContains(t, r.stdout, "battery", "the secret")
		s.requireNothingLeft()
	})
}

func TestRootDirectory(t *testing.T) {
	asEachUser(t, func(t *testing.T, s *session) {
		r := s.run("-root", filepath.Join(s.tmp, "new"))
		require.Equal(t, 0, r.status, r)
		s.requireNothingLeft()

		root := s.mkdir("it's here")
		require.NoError(t, os.WriteFile(filepath.Join(root, "mine"), nil, 0o600))
		r = s.run("-root", root)
		require.Equal(t, 0, r.status, r)
		require.Equal(t, []string{filepath.Join(root, "mine")}, files(t, root), "what is not ours stays")

		s.mkdir("it's here", "disks", "a")
		r = s.run("-root", root)
		require.Equal(t, 1, r.status, r)
		require.DirExists(t, filepath.Join(root, "disks", "a"))
	})
}

func TestSymbolicLinkInTMPDIR(t *testing.T) {
	s := newSession(t)
	link := filepath.Join(s.dir, "link")
	require.NoError(t, os.Symlink(s.tmp, link))
	cmd := s.command()
	cmd.Env = append(cmd.Env, "TMPDIR="+link)
	r := finish(t, cmd)
	require.Equal(t, 0, r.status, r)
	s.requireNothingLeft()
}

func TestManifestOfTheUser(t *testing.T) {
	asEachUser(t, func(t *testing.T, s *session) {
		s.mkdir("disks", "one")
		precious := filepath.Join(s.dir, "disks", "one", "precious")
		require.NoError(t, os.WriteFile(precious, []byte("text"), 0o600))
		name := s.manifest(podWith("claim", "x") + claimFor("x", "one") + diskAt("one", "$DIR/disks/one"))

		r := s.run("-f", name, "-disks", filepath.Join(s.dir, "disks"))
		require.Equal(t, 0, r.status, r)
		require.Contains(t, r.stdout, proof)
		require.Equal(t, []string{precious}, files(t, filepath.Join(s.dir, "disks", "one")))

		cmd := s.command("-f", "-", "-disks", filepath.Join(s.dir, "disks"))
		var err error
		cmd.Stdin, err = os.Open(name)
		require.NoError(t, err)
		r = finish(t, cmd)
		require.Equal(t, 0, r.status, r)
		s.requireNothingLeft()
	})
}

// TestFailureHalfWay: the second volume's option is one that only the mounter
// refuses, when the first volume is up.
func TestFailureHalfWay(t *testing.T) {
	asEachUser(t, func(t *testing.T, s *session) {
		s.mkdir("disks", "one")
		s.mkdir("disks", "two")
		name := s.manifest(podWith("claim", "x", "x2") + claimFor("x", "one") + claimFor("x2", "two") +
			diskAt("one", "$DIR/disks/one") + diskAt("two", "$DIR/disks/two", "mountOptions: [suid]"))
		r := s.run("-f", name, "-disks", filepath.Join(s.dir, "disks"))
		require.Equal(t, 1, r.status, r)
		isReal(t, r)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
		require.Contains(t, r.stderr, `document 5 (PersistentVolume/two): spec.mountOptions: `)
		require.Contains(t, r.stderr, `"suid"`)
		require.Contains(t, r.stdout, "Took down 1 volume: "+proof)
		s.requireNothingLeft()
	})
}

// waiting starts the program and returns when its volumes are up.
func (s *session) waiting(args ...string) (cmd *exec.Cmd, stdout io.ReadCloser, stderr *strings.Builder) {
	s.t.Helper()
	cmd = s.command(append([]string{"-wait", "1m"}, args...)...)
	stderr = &strings.Builder{}
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, cmd.Start())
	line := bufio.NewReaderSize(stdout, 1) // takes no more than it needs
	for {
		text, err := line.ReadString('\n')
		require.NoError(s.t, err, stderr)
		if strings.Contains(text, "Waiting") {
			return cmd, stdout, stderr
		}
	}
}

// TestInterrupt: a signal ends the program after it has unmounted all volumes.
func TestInterrupt(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			asEachUser(t, func(t *testing.T, s *session) {
				cmd, stdout, stderr := s.waiting()
				require.NoError(t, cmd.Process.Signal(sig))
				rest, err := io.ReadAll(stdout)
				require.NoError(t, err)
				require.Error(t, cmd.Wait())
				require.Equal(t, 1, cmd.ProcessState.ExitCode())
				require.Contains(t, string(rest), "Took down 9 volumes: "+proof)
				require.Contains(t, stderr.String(), "podvolumes: interrupted\n")
				s.requireNothingLeft()
			})
		})
	}
}

// TestUnreadOutput closes the program's output, as "| head" does.
func TestUnreadOutput(t *testing.T) {
	asEachUser(t, func(t *testing.T, s *session) {
		cmd, stdout, _ := s.waiting()
		require.NoError(t, stdout.Close())
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		require.Error(t, cmd.Wait())
		require.Equal(t, 1, cmd.ProcessState.ExitCode())
		s.requireNothingLeft()
	})
}

func TestKeepAndDown(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	s := newSession(t)
	r := s.run("-keep")
	require.Equal(t, 0, r.status, r)
	require.NotContains(t, r.stdout, proof)
	_, command, ok := strings.Cut(r.stdout, "go run ./examples/podvolumes ")
	require.True(t, ok, r.stdout)
	down := strings.Fields(command)
	root := down[len(down)-1]
	table, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.Equal(t, 7, strings.Count(string(table), " "+root+"/pods/"), "two volumes are no mounts")

	r = s.run("-root", root)
	require.Equal(t, 1, r.status, "not on top of those that are there")
	require.Contains(t, r.stderr, "-down -root "+root)

	r = s.run(down...)
	require.Equal(t, 0, r.status, r)
	require.Contains(t, r.stdout, "default_web/disk-a: kubernetes.io/local-volume, rw from "+root+"/disks/a\n")
	require.Contains(t, r.stdout, "default_web/disk-b: kubernetes.io/local-volume, ro from "+root+"/disks/b\n")
	require.Contains(t, r.stdout, "default_web/logs: kubernetes.io/host-path, rw from "+root+"/disks/logs\n")
	require.Contains(t, r.stdout, "default_web/password: kubernetes.io/secret, written for the pod\n")
	require.Contains(t, r.stdout, "Took down 9 volumes: "+proof)
	s.requireNothingLeft()

	require.Equal(t, 0, s.run(down...).status, "there is nothing to do")
	require.Equal(t, 0, s.run("-down", "-root", s.tmp).status)
	s.requireNothingLeft()
}

const podWithOwners = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  securityContext: {fsGroup: 2000, fsGroupChangePolicy: OnRootMismatch, runAsUser: 1000}
  containers: [{name: c}]
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: access, projected: {sources: [{serviceAccountToken: {path: token}}]}}
`

// TestSecurityContextRequiresRoot checks that an ordinary user without the right to change the
// owners of files, gets an error that names root.
func TestSecurityContextRequiresRoot(t *testing.T) {
	asEachUser(t, func(t *testing.T, s *session) {
		r := s.run("-f", s.manifest(podWithOwners))
		if s.setup == nil && os.Geteuid() == 0 {
			require.Equal(t, 0, r.status, r)
		} else {
			require.Equal(t, 1, r.status, r)
			require.Contains(t, r.stderr, onlyRootGives)
		}
		s.requireNothingLeft()
	})
}

// TestSecurityContext checks that volumes belong to the pod's group, and that a token
// belongs to its user.
func TestSecurityContext(t *testing.T) {
	if !mounttest.RootNamespace(t) { // others give files to themselves alone
		return
	}
	s := newSession(t)
	root := filepath.Join(s.tmp, "root")
	r := s.run("-keep", "-root", root, "-f", s.manifest(podWithOwners))
	require.Equal(t, 0, r.status, r)
	for name, owner := range map[string]int{"*/scratch": 0, "*/access/token": 1000} {
		found, err := filepath.Glob(filepath.Join(root, "pods/*/volumes", name))
		require.NoError(t, err)
		require.Len(t, found, 1)
		info, err := os.Stat(found[0])
		require.NoError(t, err)
		stat := info.Sys().(*syscall.Stat_t)
		require.Equal(t, []uint32{uint32(owner), 2000}, []uint32{stat.Uid, stat.Gid}, name)
	}
	r = s.run("-down", "-root", root)
	require.Equal(t, 0, r.status, r)
	s.requireNothingLeft()
}

// TestDownKeepsFiles checks that -down does not remove a file that the user has added.
func TestDownKeepsFiles(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	s := newSession(t)
	root := filepath.Join(s.tmp, "root")
	require.Equal(t, 0, s.run("-keep", "-root", root).status)
	mine := filepath.Join(root, "disks", "a", "mine")
	require.NoError(t, os.WriteFile(mine, nil, 0o600))
	r := s.run("-down", "-root", root)
	require.Equal(t, 1, r.status, r)
	require.FileExists(t, mine)
	require.NoDirExists(t, filepath.Join(root, "pods"))
	require.NoError(t, os.Remove(mine))
	require.Equal(t, 0, s.run("-down", "-root", root).status)
	s.requireNothingLeft()
}

// TestDownAfterKill checks that -down removes the volumes of a killed program, with mounts
// or without. The mounts in the namespace of an ordinary user's program end with it; their
// directories stay.
func TestDownAfterKill(t *testing.T) {
	t.Run("mounts", func(t *testing.T) {
		if mounttest.Namespace(t) {
			downAfterKill(t, newSession(t), "rw from ")
		}
	})
	t.Run("directories", func(t *testing.T) {
		asEachUser(t, func(t *testing.T, s *session) {
			if s.setup == nil && os.Geteuid() == 0 {
				t.Skip("see mounts")
			}
			downAfterKill(t, s, "a directory where nothing is mounted")
		})
	})
}

func downAfterKill(t *testing.T, s *session, says string) {
	root := filepath.Join(s.tmp, "root")
	cmd, _, _ := s.waiting("-root", root)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	r := s.run("-down", "-root", root)
	// The copy in the namespace ends a moment later, and keeps directories busy.
	for deadline := time.Now().Add(20 * time.Second); r.status != 0 && time.Now().Before(deadline); {
		r = s.run("-down", "-root", root)
	}
	require.Equal(t, 0, r.status, r)
	require.Contains(t, r.stdout, says)
	s.requireNothingLeft()
}

func TestDownWithForeignEntries(t *testing.T) {
	s := newSession(t)
	for _, dir := range []string{
		"pods/empty",
		"pods/1/volumes",
		"pods/2/volumes/kubernetes.io~local-volume",
		"pods/3/volumes/kubernetes.io~local-volume/v",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(s.tmp, dir), 0o755))
	}
	r := s.run("-down", "-root", s.tmp)
	require.Equal(t, 0, r.status, r)
	s.requireNothingLeft()

	for _, dir := range []string{
		"pods/1/volumes/kubernetes.io~unknown/v",
		"pods/2/volumes/no~plugin~name/v",
		"pods/3/volumes/kubernetes.io~local-volume/v/precious",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(s.tmp, dir), 0o755))
	}
	r = s.run("-down", "-root", s.tmp)
	require.Equal(t, 1, r.status, r)
	require.Equal(t, 4, strings.Count(r.stderr, "\n"), r.stderr)
	require.DirExists(t, filepath.Join(s.tmp, "pods/3/volumes/kubernetes.io~local-volume/v/precious"))
	require.DirExists(t, filepath.Join(s.tmp, "pods/1/volumes/kubernetes.io~unknown/v"))
}

func TestKeepNeedsRoot(t *testing.T) {
	asEachUser(t, func(t *testing.T, s *session) {
		if s.setup == nil && os.Geteuid() == 0 {
			t.Skip("root")
		}
		r := s.run("-keep")
		require.Equal(t, 1, r.status)
		require.Contains(t, r.stderr, "-keep: requires root")
		require.Equal(t, 1, strings.Count(r.stderr, "\n"))
		s.requireNothingLeft()
	})
}

func TestBadManifestsOnRealKernel(t *testing.T) {
	asEachUser(t, func(t *testing.T, s *session) {
		s.mkdir("disks", "one")
		for _, name := range []string{"not YAML", "emptyDir", "missing claim", "not allowed", "second one is bad"} {
			bad := badManifests[name]
			r := s.run("-f", s.manifest(bad.text), "-disks", filepath.Join(s.dir, "disks"))
			require.Equal(t, 1, r.status, name)
			require.Equal(t, 1, strings.Count(r.stderr, "\n"), "%s: %s", name, r.stderr)
			require.Contains(t, r.stderr, bad.says, name)
			require.NotContains(t, r.stdout, "Pod ", name)
			s.requireNothingLeft()
		}
	})
}
