package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

const linkedPod = `
apiVersion: v1
kind: Pod
metadata: {name: linked}
spec:
  containers:
  - name: c
    volumeMounts: [{name: link, mountPath: /a}, {name: "null", mountPath: /b}]
    volumeDevices: [{name: disk, devicePath: /dev/x}]
  volumes:
  - {name: link, hostPath: {path: /mnt/links/run, type: Directory}}
  - {name: "null", hostPath: {path: /dev/null, type: CharDevice}}
  - {name: disk, ephemeral: {volumeClaimTemplate: {spec: {volumeName: disk, volumeMode: Block}}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {volumeMode: Block, local: {path: /mnt/by-id/disk}}
`

// TestLinksAndDevices: with -links a host path leads through a link, with -devices to a device, and
// with -device-links a local volume to a disk. Without one of the flags its volume is refused.
func TestLinksAndDevices(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	u := newUser(t, 0)
	dir := testbed.Tmpfs(t, "/mnt")
	testbed.Fill(t, dir, "run/", "links/", "by-id/")
	testbed.Image(t, dir+"/image", 1<<20)
	require.NoError(t, os.Symlink(dir+"/run", dir+"/links/run"))
	require.NoError(t, os.Symlink(testbed.Loop(t, dir+"/image"), dir+"/by-id/disk"))
	u.put("linked.yaml", linkedPod)
	flags := map[string][]string{
		"links": {"-links", "/mnt/links"}, "devices": {"-devices"}, "device-links": {"-device-links", "/mnt/by-id"},
	}
	for missing, says := range map[string]string{
		"links": "/mnt/links/run", "devices": "mount.Config.Allow.Dev ", "device-links": "/mnt/by-id/disk", "": "",
	} {
		args := u.flags("-once", "-timeout", "5s", "-host-paths", "/mnt/run,/dev/null")
		for name, some := range flags {
			if name != missing {
				args = append(args, some...)
			}
		}
		p, code := u.run(args...)
		if missing != "" {
			require.Equal(t, 1, code, missing)
			require.Contains(t, p.stderr.String(), says, missing)
			continue
		}
		require.Zero(t, code, p.stderr.String())
		require.Contains(t, p.stdout.String(), "All is as desired: 3 volumes of 1 pod are up.\n")
	}
	require.NoError(t, os.Remove(u.dir+"/manifests/linked.yaml"))
	p, code := u.run(u.flags("-once", "-host-paths", "/mnt/run,/dev/null", "-device-links", "/mnt/by-id", "-links", "/mnt/links")...)
	require.Zero(t, code, p.stderr.String())
	u.requireEmpty("manifests/.nodeagent/pods")
}
