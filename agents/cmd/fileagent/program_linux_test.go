package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/agents/internal/namespace"
	"github.com/volumekit/volumekit/internal/rootlock"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { testbed.Main(m, func() int { return cli.Start(run) }) }

// A user runs the program.
type user struct {
	*testing.T
	uid int
	dir string // for the files of the program and the test
}

func newUser(t *testing.T, uid int) user {
	t.Helper()
	// Unlike t.TempDir, where every user finds it.
	dir, err := os.MkdirTemp("", "fileagent-test-")
	require.NoError(t, err)
	t.Cleanup(func() { removeTree(t, dir) })
	u := user{t, uid, dir}
	for _, name := range []string{"", "tmp", "manifests", "disks", "disks/one", "coverage"} {
		u.makeOwnDir(filepath.Join(dir, name))
	}
	return u
}

// removeTree removes a directory in which volumes may be mounted.
func removeTree(t *testing.T, dir string) {
	t.Helper()
	for _, at := range mountsBelow(t, dir) {
		_ = unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // it may have gone with another one
	}
	require.NoError(t, os.RemoveAll(dir))
}

// mountsBelow returns the mount points below a directory, sorted.
func mountsBelow(t *testing.T, dir string) (all []string) {
	t.Helper()
	mounts, err := mountsOf(0)
	require.NoError(t, err)
	for at := range mounts {
		if strings.HasPrefix(at, dir+"/") {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all
}

func (u user) makeOwnDir(dir string) {
	u.Helper()
	require.NoError(u, os.MkdirAll(dir, 0o755))
	require.NoError(u, os.Chown(dir, u.uid, -1))
}

// put writes a manifest as editors do.
func (u user) put(name, text string) {
	u.Helper()
	tmp := filepath.Join(u.dir, "tmp", name)
	require.NoError(u, os.WriteFile(tmp, []byte(strings.ReplaceAll(text, "$DISKS", u.dir+"/disks")), 0o644))
	require.NoError(u, os.Rename(tmp, filepath.Join(u.dir, "manifests", name)))
}

func (u user) flags(more ...string) []string {
	return append([]string{"-manifests", u.dir + "/manifests", "-disks", u.dir + "/disks"}, more...)
}

// A process is the program while it runs.
type process struct {
	*exec.Cmd
	stdout, stderr output
	ended          chan struct{}
}

// An output may be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (u user) start(args ...string) *process {
	u.Helper()
	return u.startWith(func(*exec.Cmd) {}, args...)
}

// startWith starts it in another way.
func (u user) startWith(change func(*exec.Cmd), args ...string) *process {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.Context(), 2*waitLimit())
	u.Cleanup(cancel)
	p := &process{Cmd: exec.CommandContext(ctx, "/proc/self/exe", args...), ended: make(chan struct{})}
	p.Dir = u.dir
	p.Env = append(os.Environ(), testbed.ProgramVariable+"=1", program.Variable()+"=", "TMPDIR="+u.dir+"/tmp", "GOCOVERDIR="+u.dir+"/coverage", "GORACE=atexit_sleep_ms=0")
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	p.WaitDelay = 30 * time.Second
	p.SysProcAttr = &syscall.SysProcAttr{}
	if u.uid != os.Geteuid() {
		p.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.uid)}
	}
	change(p.Cmd)
	err := p.Start()
	if os.IsPermission(err) {
		mounttest.SkipWithout(u, "reach", fmt.Sprintf("an ordinary user cannot get there: %v", err))
	}
	require.NoError(u, err)
	go func() {
		_ = p.Wait() // the status is in ProcessState
		close(p.ended)
	}()
	u.Cleanup(func() {
		cancel()
		<-p.ended
	})
	return p
}

// run runs the program to its end.
func (u user) run(args ...string) (*process, int) {
	u.Helper()
	p := u.start(args...)
	return p, u.wait(p)
}

// timeOut runs the program with -once until its time is up: a longer time if it has not said the text, which is a
// matter of a second on an idle machine.
func (u user) timeOut(says string, args ...string) {
	u.Helper()
	stderr := ""
	for _, limit := range []string{"3s", "1m"} {
		p, code := u.run(append(args, "-once", "-timeout", limit)...)
		require.Equal(u, 1, code)
		stderr = p.stderr.String()
		if strings.Contains(stderr, says) {
			return
		}
	}
	require.Contains(u, stderr, says)
}

func (u user) wait(p *process) int {
	u.Helper()
	<-p.ended
	if strings.Contains(p.stderr.String(), namespace.None) {
		mounttest.SkipWithout(u, "userns", p.stderr.String())
	}
	return p.ProcessState.ExitCode()
}

func (u user) waitForOutput(p *process, part string) {
	u.Helper()
	require.Eventually(u, func() bool {
		return strings.Contains(p.stdout.String(), part) || isEnded(p)
	}, waitLimit(), 10*time.Millisecond)
	if isEnded(p) {
		u.wait(p)
	}
	require.Contains(u, p.stdout.String(), part, p.stderr.String())

}

// waitLimit is how long something may take that does not hang.
func waitLimit() time.Duration {
	if testbed.Long() {
		return 10 * time.Minute
	}
	return time.Minute
}

func isEnded(p *process) bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// asEachUser runs a test as an ordinary user, and as root in a namespace of its own. The
// ordinary user is the tests' own, or 65534 if root runs the tests.
func asEachUser(t *testing.T, test func(user)) {
	t.Parallel()
	t.Run("ordinary user", func(t *testing.T) {
		t.Parallel()
		uid := os.Geteuid()
		if uid == 0 {
			uid = 65534
		}
		test(newUser(t, uid))
	})
	t.Run("root", func(t *testing.T) {
		t.Parallel()
		if mounttest.Namespace(t) {
			test(newUser(t, 0))
		}
	})
}

const onePod = `
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  containers: [{name: c, volumeMounts: [{name: cache, mountPath: /a}, {name: disk, mountPath: /b}, {name: words, mountPath: /c}]}]
  volumes:
  - {name: cache, emptyDir: {}}
  - {name: disk, ephemeral: {volumeClaimTemplate: {spec: {volumeName: disk}}}}
  - {name: words, configMap: {name: words}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {local: {path: $DISKS/one}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {hello: world}
`

// TestDemo checks that the demo shows its volumes and leaves nothing behind.
func TestDemo(t *testing.T) {
	asEachUser(t, func(u user) {
		p := u.start()
		u.waitForOutput(p, "All is as desired: 6 volumes of 2 pods are up.\n")
		require.NoError(u, p.Process.Signal(syscall.SIGTERM))
		require.Zero(u, u.wait(p), p.stderr.String())
		require.Regexp(u, `default/writer +pages +kubernetes.io/local-volume +rw, `, p.stdout.String())
		require.Regexp(u, `default/web +cache +kubernetes.io/empty-dir +no, a directory`, p.stdout.String())
		require.NotContains(u, p.stdout.String(), "sesame")
		u.requireEmpty("tmp")

		p, status := u.run("-once")
		require.Zero(u, status, p.stderr.String())
		u.requireEmpty("tmp")
	})
}

// TestDemoWithoutReader checks that the demo takes down all volumes also if its output is
// closed.
func TestDemoWithoutReader(t *testing.T) {
	asEachUser(t, func(u user) {
		r, w, err := os.Pipe()
		require.NoError(u, err)
		require.NoError(u, r.Close())
		p := u.startWith(func(c *exec.Cmd) { c.Stdout = w }, "-once")
		require.NoError(u, w.Close())
		require.Equal(u, 1, u.wait(p))
		require.Contains(u, p.stderr.String(), "broken pipe\n")
		u.requireEmpty("tmp")
	})
}

// kill kills the program, and waits for the end of its copy in the namespace, too.
func (u user) kill(p *process) {
	u.Helper()
	require.NoError(u, p.Process.Kill())
	<-p.ended
	require.Eventually(u, func() bool {
		pid, err := rootlock.Holder(u.dir + "/manifests/.fileagent")
		return err == nil && pid == 0
	}, time.Minute, 10*time.Millisecond)
}

func (u user) requireEmpty(name string) {
	u.Helper()
	entries, err := os.ReadDir(filepath.Join(u.dir, name))
	if os.IsNotExist(err) {
		return
	}
	require.NoError(u, err)
	if len(entries) > 0 {
		all, _ := exec.Command("find", filepath.Join(u.dir, name)).Output()
		u.Fatalf("%s is left", all)
	}
}

// TestAgent checks that the agent follows changes of the manifests, also after it was
// killed.
func TestAgent(t *testing.T) {
	asEachUser(t, func(u user) {
		u.put("one.yaml", onePod)
		p := u.start(u.flags()...)
		u.waitForOutput(p, "All is as desired: 3 volumes of 1 pod are up.\n")
		status, code := u.run(u.flags("-status")...)
		require.Zero(u, code, status.stderr.String())
		require.Contains(u, status.stdout.String(), "(the agent is process ")
		require.Regexp(u, `default/one +disk +kubernetes.io/local-volume +rw, `, status.stdout.String())
		other, code := u.run(u.flags("-once")...)
		require.Equal(u, 1, code)
		require.Regexp(u, rootlock.ErrLocked.Error()+`: process [1-9]\d*\n$`, other.stderr.String())

		u.put("two.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: two_2}\n")
		u.waitForOutput(p, "manifests: two.yaml, document 1 (Pod/two_2): metadata.name: Invalid value")
		u.put("two.yaml", strings.Split(strings.ReplaceAll(onePod, "name: one", "name: two"), "\n---")[0])
		u.waitForOutput(p, "two-disk")
		u.put("three.yaml", idlePod("three", 1))
		u.waitForOutput(p, "SuccessfulMountVolume default/three: ")
		require.NoError(u, os.Remove(u.dir+"/manifests/three.yaml"))
		u.waitForOutput(p, "SuccessfulUnMountVolume default/three: ")
		u.kill(p)

		require.NoError(u, os.Remove(u.dir+"/manifests/two.yaml"))
		p, code = u.run(u.flags("-once")...)
		require.Zero(u, code, p.stderr.String())
		require.Contains(u, p.stdout.String(), "All is as desired: 3 volumes of 1 pod are up.\n")
		require.NoError(u, os.Remove(u.dir+"/manifests/one.yaml"))
		pods := u.dir + "/manifests/.fileagent/pods"
		for _, dir := range []string{"/gone", "/gone/volume-subpaths", "/gone/volume-subpaths/logs", "/gone/volume-subpaths/logs/container", "/gone/volume-subpaths/logs/container/0"} {
			u.makeOwnDir(pods + dir)
		}
		require.NoError(u, os.WriteFile(pods+"/gone/volume-subpaths/logs/container/1", []byte("x"), 0o644))
		p, code = u.run(u.flags("-once")...)
		require.Zero(u, code, p.stderr.String())
		require.Regexp(u, "All is as desired: 0 volumes of 0 pods are up.\nLeft alone: .*/gone/volume-subpaths/logs gone: subpath mount without", p.stdout.String())
		p, code = u.run(u.flags("-status")...)
		require.Zero(u, code, p.stderr.String())
		require.Regexp(u, "gone +logs +volume-subpaths +left alone: the pod has no volume", p.stdout.String())
		require.NoError(u, os.Truncate(pods+"/gone/volume-subpaths/logs/container/1", 0))
		require.NoError(u, os.Mkdir(pods+"/gone/volume-subpaths/logs/container/0", 0o755))
		require.NoError(u, os.Chown(pods+"/gone/volume-subpaths/logs/container/0", u.uid, -1))
		p, code = u.run(u.flags("-once")...)
		require.Zero(u, code, p.stderr.String())
		require.Regexp(u, "All is as desired: 0 volumes of 0 pods are up.\n$", p.stdout.String())
		u.requireEmpty("manifests/.fileagent/pods")
		u.requireEmpty("disks/one")
	})
}

// TestSwappedManifests: the manifests may be those that a link leads to, and another
// directory's later; the volumes stay where they are.
func TestSwappedManifests(t *testing.T) {
	asEachUser(t, func(u user) {
		u.put("one.yaml", idlePod("one", 1))
		next, current := filepath.Join(u.dir, "next"), filepath.Join(u.dir, "current")
		u.makeOwnDir(next)
		require.NoError(u, os.WriteFile(filepath.Join(next, "two.yaml"), []byte(idlePod("two", 2)), 0o644))
		require.NoError(u, os.Symlink("manifests", current))
		u.makeOwnDir(filepath.Join(u.dir, "root"))
		p := u.start("-manifests", current, "-root", filepath.Join(u.dir, "root"))
		u.waitForOutput(p, "All is as desired: 1 volume of 1 pod is up.\n")
		require.NoError(u, os.Symlink("next", current+".new"))
		require.NoError(u, os.Rename(current+".new", current))
		u.waitForOutput(p, "All is as desired: 2 volumes of 1 pod are up.\n")
	})
}

func TestOnceFails(t *testing.T) {
	asEachUser(t, func(u user) {
		u.put("one.yaml", strings.ReplaceAll(onePod, "$DISKS", "/elsewhere"))
		u.timeOut(errTimeout.Error()+"; volume disk: ", u.flags()...)
		u.put("one.yaml", "{[")
		p, code := u.run(u.flags("-once", "-root", u.dir+"/tmp/root")...)
		require.Equal(u, 1, code)
		require.Contains(u, p.stderr.String(), "fileagent: 1 problem in the manifests: one.yaml, document 1: ")
	})
}

func TestFlags(t *testing.T) {
	u := newUser(t, os.Geteuid())
	require.NoError(t, os.Symlink("manifests", u.dir+"/current"))
	for says, args := range map[string][]string{
		`unexpected argument "x"`:         {"x"},
		"-status: requires -manifests":    {"-status"},
		"-status and -once":               {"-manifests", "x", "-status", "-once"},
		"require -manifests":              {"-root", "x"},
		"-timeout":                        {"-once", "-timeout", "-1s"},
		"a symbolic link":                 {"-manifests", "current/"},
		"an element of the list is empty": {"-manifests", "x", "-disks", "a,,b"},
	} {
		p, code := u.run(args...)
		require.Equal(t, 2, code)
		require.Contains(t, p.stderr.String(), says)
	}
	p, code := u.run("-help")
	require.Zero(t, code)
	require.Contains(t, p.stdout.String(), "-manifests")
	p, code = u.run("-status", "-root", u.dir)
	require.Equal(t, 1, code)
	require.Contains(t, p.stderr.String(), "no agent has run on this root")
}
