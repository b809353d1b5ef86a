package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
)

const podOfNode = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c}]
  volumes:
  - name: x
    projected:
      sources:
      - serviceAccountToken: {path: token}
      - downwardAPI:
          items:
          - {path: cpu, resourceFieldRef: {containerName: c, resource: limits.cpu}}
          - {path: memory, resourceFieldRef: {containerName: c, resource: limits.memory}}
`

// TestNode: a limit that a pod does not have is the machine's, and its token is one that
// nobody takes for a real one.
func TestNode(t *testing.T) {
	s := newSession(t)
	d := fakes(s)
	var stdout, stderr bytes.Buffer
	c := &console{stdout: &stdout, stderr: &stderr}
	o := options{file: s.manifest(podOfNode), root: filepath.Join(s.tmp, "root")}
	j, err := newJob(o, d.stdin, place{Interface: d.fake, resolve: d.fake.RealPath}, c)
	require.NoError(t, err)
	require.NoError(t, j.prepare())
	at := j.volumes[0].mounter
	require.NoError(t, at.SetUp(t.Context(), volume.MounterArgs{}))
	has := func(name string) string {
		text, err := os.ReadFile(filepath.Join(at.GetPath(), name))
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, madeUpToken, has("token"))
	require.Equal(t, strconv.Itoa(runtime.NumCPU()), has("cpu"))
	var info syscall.Sysinfo_t
	require.NoError(t, syscall.Sysinfo(&info))
	require.Equal(t, strconv.FormatUint(uint64(info.Totalram)*uint64(info.Unit), 10), has("memory"))

	takeDown{console: c, base: j.base, place: j.place, plugins: j.plugins}.all(t.Context())
	require.Equal(t, 0, c.status(), stderr.String())
	s.nothingIsLeft()
}
