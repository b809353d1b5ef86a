package main

import (
	"os"
	"strings"
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
  - {name: link, hostPath: {path: $PATHS/links/run, type: Directory}}
  - {name: "null", hostPath: {path: /dev/null, type: CharDevice}}
  - {name: disk, ephemeral: {volumeClaimTemplate: {spec: {volumeName: disk, volumeMode: Block}}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {volumeMode: Block, local: {path: $PATHS/by-id/disk}}
`

// A linkedUser has a host path that leads through a link, and a disk, in a directory of its own.
type linkedUser struct {
	user
	paths string
}

func newLinkedUser(t *testing.T, paths string) linkedUser {
	t.Helper()
	u := linkedUser{newUser(t, 0), paths}
	testbed.Fill(t, paths, "run/", "links/", "by-id/")
	testbed.Image(t, paths+"/image", 1<<20)
	require.NoError(t, os.Symlink(paths+"/run", paths+"/links/run"))
	require.NoError(t, os.Symlink(testbed.Loop(t, paths+"/image"), paths+"/by-id/disk"))
	u.put("linked.yaml", strings.ReplaceAll(linkedPod, "$PATHS", paths))
	return u
}

// startWithout starts the program without one of its flags.
func (u linkedUser) startWithout(missing, timeout string) *process {
	u.Helper()
	args := u.flags("-once", "-timeout", timeout, "-host-paths", u.paths+"/run,/dev/null")
	for name, value := range map[string]string{"links": u.paths + "/links", "device-links": u.paths + "/by-id", "devices": "true"} {
		if name != missing {
			args = append(args, "-"+name+"="+value)
		}
	}
	return u.start(args...)
}

// TestLinksAndDevices: with -links a host path leads through a link, with -devices to a device, and
// with -device-links a local volume to a disk. Without one of the flags its volume is refused.
func TestLinksAndDevices(t *testing.T) {
	t.Parallel()
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := testbed.Tmpfs(t, "/mnt")
	missing := map[string]string{
		"links": "/links/run", "devices": "mount.Config.Allow.Dev ", "device-links": "/by-id/disk",
	}
	users, refused := map[string]linkedUser{}, map[string]*process{}
	for name := range missing {
		users[name] = newLinkedUser(t, dir+"/"+name)
		refused[name] = users[name].startWithout(name, "5s")
	}
	u := newLinkedUser(t, dir+"/all")
	p := u.startWithout("", "1m")
	require.Zero(t, u.wait(p), p.stderr.String())
	require.Contains(t, p.stdout.String(), "All is as desired: 3 volumes of 1 pod are up.\n")
	require.NoError(t, os.Remove(u.dir+"/manifests/linked.yaml"))
	p = u.startWithout("", "1m")
	require.Zero(t, u.wait(p), p.stderr.String())
	u.requireEmpty("manifests/.fileagent/pods")
	for name, says := range missing {
		p := refused[name]
		require.Equal(t, 1, u.wait(p), name)
		require.Contains(t, p.stderr.String(), says, name)
		// The volumes that are up end with their pod: the disk has a loop device.
		require.NoError(t, os.Remove(users[name].dir+"/manifests/linked.yaml"))
		refused[name] = users[name].startWithout(name, "1m")
	}
	for name, p := range refused {
		require.Zero(t, users[name].wait(p), "%s: %s", name, p.stderr.String())
	}
}
