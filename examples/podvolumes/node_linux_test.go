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
	"github.com/volumekit/volumekit/examples/internal/machine"
	"github.com/volumekit/volumekit/internal/cli"
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

// TestNode checks that a limit which the pod lacks is the machine's, and that the pod's
// token cannot be mistaken for a real one.
func TestNode(t *testing.T) {
	s := newSession(t)
	d := fakes(s)
	var stdout, stderr bytes.Buffer
	c := &cli.Console{Stdout: &stdout, Stderr: &stderr}
	o := options{file: s.manifest(podOfNode), root: filepath.Join(s.tmp, "root")}
	j, err := newJob(o, d.Stdin, machine.Kernel{Interface: d.Fake, RealPath: d.Fake.RealPath}, c)
	require.NoError(t, err)
	require.NoError(t, j.prepare(t.Context()))
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

	j.run(t.Context())
	require.Equal(t, 0, c.Status(), stderr.String())
	s.requireNothingLeft()
}
