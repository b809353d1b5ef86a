package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// churnPod returns a pod with a volume of each kind. The pod's annotation changes with its
// version.
func churnPod(name string, version int) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {version: "%d"}}
spec:
  containers:
  - name: c
    volumeMounts:
    - {name: scratch, mountPath: /a}
    - {name: memory, mountPath: /b}
    - {name: shared, mountPath: /c}
    - {name: seen, mountPath: /d, readOnly: true}
    - {name: words, mountPath: /e}
    - {name: key, mountPath: /f}
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: shared, persistentVolumeClaim: {claimName: shared}}
  - {name: seen, hostPath: {path: "$DISKS/seen", type: Directory}}
  - {name: words, configMap: {name: words}}
  - {name: key, secret: {secretName: key}}
`, name, version)
}

const churnRest = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec: {volumeName: shared}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: shared}
spec: {local: {path: $DISKS/one}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {hello: world}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {key: sesame}
`

const sentinel = "not a byte of this is ever lost"

// A crash is an agent that is killed again and again while pods come and go.
type crash struct {
	user
	random *rand.Rand
	pods   map[string]int // versions, by name
	pod    func(name string, version int) string
}

// TestCrash kills the agent at random moments while pods are created, changed and deleted.
// After its last start all is as desired, no other mount and no other directory is left, and
// the files of the pods are complete: on disks, and in the volume of a pod that existed all
// the time.
func TestCrash(t *testing.T) {
	t.Parallel()
	if !mounttest.Namespace(t) {
		return
	}
	kills := 15
	if testbed.Long() {
		kills = 200
	}
	c := crash{newUser(t, 0), rand.New(rand.NewPCG(testbed.Seed(t), 0)), map[string]int{}, churnPod}
	c.makeOwnDir(c.dir + "/disks/seen")
	for _, disk := range []string{"one", "seen"} {
		require.NoError(t, os.WriteFile(filepath.Join(c.dir, "disks", disk, "sentinel"), []byte(sentinel), 0o600))
	}
	c.put("rest.yaml", churnRest)
	c.put("steady.yaml", churnPod("steady", 1))
	c.once(6)
	steady := c.leaveSentinel()

	for range kills {
		c.killOne()
	}

	c.once(6 * (len(c.pods) + 1))
	c.check(len(c.pods) + 1)
	c.isWhole(steady)
	c.removePods()
	c.once(6)
	c.check(1)
	c.isWhole(steady)
	require.NoError(t, os.Remove(filepath.Join(c.dir, "manifests", "steady.yaml")))
	c.once(0)
	c.check(0)
	c.requireEmpty("root/pods")
}

// killOne has an agent at work while pods churn, and kills it at a random moment.
func (c crash) killOne() {
	c.Helper()
	for range 1 + c.random.IntN(3) {
		c.churn()
	}
	p := c.start(c.agentFlags()...)
	time.Sleep(time.Duration(c.random.Int64N(int64(400 * time.Millisecond))))
	if c.random.IntN(2) == 0 {
		c.churn()
		time.Sleep(time.Duration(c.random.Int64N(int64(300 * time.Millisecond))))
	}
	require.NoError(c, p.Process.Kill())
	<-p.ended
}

func (c crash) agentFlags(more ...string) []string {
	return append(c.flags("-root", c.dir+"/root", "-host-paths", c.dir+"/disks"), more...)
}

// churn adds a pod, or changes or removes it.
func (c crash) churn() {
	c.Helper()
	name := fmt.Sprint("pod-", c.random.IntN(8))
	if _, ok := c.pods[name]; ok && c.random.IntN(2) == 0 {
		delete(c.pods, name)
		require.NoError(c, os.Remove(filepath.Join(c.dir, "manifests", name+".yaml")))
		return
	}
	c.pods[name]++
	c.put(name+".yaml", c.pod(name, c.random.Int()))
}

func (c crash) removePods() {
	c.Helper()
	for name := range c.pods {
		require.NoError(c, os.Remove(filepath.Join(c.dir, "manifests", name+".yaml")))
	}
}

// once has all that is desired done.
func (c crash) once(volumes int) {
	c.Helper()
	p, code := c.run(c.agentFlags("-once", "-timeout", "90s")...)
	require.Zero(c, code, "%s\n%s", p.stdout.String(), p.stderr.String())
	require.Contains(c, p.stdout.String(), fmt.Sprintf("All is as desired: %d volumes of ", volumes))
}

// leaveSentinel writes into the volume of the steady pod.
func (c crash) leaveSentinel() string {
	c.Helper()
	dirs, err := filepath.Glob(c.dir + "/root/pods/*/volumes/kubernetes.io~empty-dir/scratch")
	require.NoError(c, err)
	require.Len(c, dirs, 1)
	name := filepath.Join(dirs[0], "sentinel")
	require.NoError(c, os.WriteFile(name, []byte(sentinel), 0o600))
	return name
}

func (c crash) isWhole(name string) {
	c.Helper()
	text, err := os.ReadFile(name)
	require.NoError(c, err)
	require.Equal(c, sentinel, string(text))
}

// check compares the mounts and directories with those of that many pods.
func (c crash) check(pods int) {
	c.Helper()
	for _, disk := range []string{"one", "seen"} {
		c.isWhole(filepath.Join(c.dir, "disks", disk, "sentinel"))
		entries, err := os.ReadDir(filepath.Join(c.dir, "disks", disk))
		require.NoError(c, err)
		require.Len(c, entries, 1)
	}
	require.Len(c, c.foreignMounts(), pods*4, "%s", strings.Join(c.foreignMounts(), "\n"))
	for kind, n := range map[string]int{"pods/*": pods, "pods/*/volumes/*/*": pods * 6, "pods/*/plugins/*/*/*": pods * 5} {
		found, err := filepath.Glob(filepath.Join(c.dir, "root", kind))
		require.NoError(c, err)
		if len(found) != n {
			all, _ := exec.Command("find", c.dir+"/root/pods", "-maxdepth", "5").Output()
			c.Fatalf("%d instead of %d %s in\n%s", len(found), n, kind, all)
		}
	}
}

// foreignMounts returns the mount points that are not the test's own.
func (c crash) foreignMounts() []string {
	c.Helper()
	return slices.DeleteFunc(mountsBelow(c.T, c.dir), func(at string) bool { return at == c.dir+"/disks" })
}
