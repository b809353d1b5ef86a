package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClosedReader checks that an agent ends after its output is closed, although it has
// nothing to print, and that it leaves the volumes as they are.
func TestClosedReader(t *testing.T) {
	asEachUser(t, func(u user) {
		u.put("one.yaml", onePod)
		r, w, err := os.Pipe()
		require.NoError(u, err)
		p := u.startWith(func(c *exec.Cmd) { c.Stdout = w }, u.flags()...)
		require.NoError(u, w.Close())
		for lines := bufio.NewScanner(r); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "All is as desired") {
				break
			}
		}
		require.NoError(u, r.Close())
		require.Equal(u, 1, u.wait(p), p.stderr.String())
		require.Equal(u, "fileagent: standard output: broken pipe\n", p.stderr.String())
		left, err := filepath.Glob(u.dir + "/manifests/.fileagent/pods/*/volumes/*/*")
		require.NoError(u, err)
		require.Len(u, left, 3)
	})
}

// TestFullDisk: what cannot be printed is an error.
func TestFullDisk(t *testing.T) {
	asEachUser(t, func(u user) {
		u.put("one.yaml", onePod)
		for _, args := range [][]string{u.flags("-once"), u.flags("-status"), {"-once"}} {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			require.NoError(u, err)
			p := u.startWith(func(c *exec.Cmd) { c.Stdout = full }, args...)
			require.Equal(u, 1, u.wait(p))
			require.Equal(u, 1, strings.Count(p.stderr.String(), "no space left on device"), "%s: %s", args, p.stderr.String())
			require.NoError(u, full.Close())
		}
	})
}

const listOfPods = `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: listed}
  spec:
    containers: [{name: c, volumeMounts: [{name: token, mountPath: /a}, {name: near, mountPath: /b}]}]
    volumes:
    - {name: token, projected: {sources: [{serviceAccountToken: {path: token}}]}}
    - {name: near, ephemeral: {volumeClaimTemplate: {spec: {volumeName: near}}}}
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: near}
  spec:
    local: {path: $DISKS/one}
    nodeAffinity: {required: {nodeSelectorTerms: [
      {matchExpressions: [
        {key: zone, operator: In, values: [a]}, {key: kubernetes.io/hostname, operator: In, values: [node-1]}]}]}}
`

// TestListOfPods checks a list of pods with a token for each, on a node with a name and
// labels.
func TestListOfPods(t *testing.T) {
	asEachUser(t, func(u user) {
		u.put("list.yaml", listOfPods)
		require.NoError(u, os.WriteFile(u.dir+"/token", []byte("sesame\n"), 0o644))
		u.timeOut("node-1", u.flags("-node", "node-1")...) // which has no zone

		p := u.start(u.flags("-node", "node-1", "-node-labels", "zone=a", "-token-file", u.dir+"/token")...)
		u.waitForOutput(p, "All is as desired: 2 volumes of 1 pod are up.\n")
		require.NotContains(u, p.stdout.String()+p.stderr.String(), "sesame")
		u.kill(p)

		p, code := u.run(u.flags("-once", "-token-file", u.dir+"/none")...)
		require.Equal(u, 1, code)
		require.Contains(u, p.stderr.String(), "-token-file: ")
	})
}

// TestForeignTree: volumes that others have left are named when they are taken down.
func TestForeignTree(t *testing.T) {
	asEachUser(t, func(u user) {
		root := filepath.Join(u.dir, "manifests", ".fileagent")
		for _, dir := range []string{"", "/pods", "/pods/their-uid", "/pods/their-uid/volumes", "/pods/their-uid/volumes/kubernetes.io~empty-dir", "/pods/their-uid/volumes/kubernetes.io~empty-dir/scratch"} {
			u.makeOwnDir(root + dir)
		}
		p, code := u.run(u.flags("-once")...)
		require.Zero(u, code, p.stderr.String())
		require.Contains(u, p.stdout.String(), "SuccessfulUnMountVolume their-uid: tear down: volume \"scratch\"\n")
	})
}
