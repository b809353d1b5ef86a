package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestNFSVolumes are mounted, in the pod and through a claim.
func TestNFSVolumes(t *testing.T) {
	s := newSession(t)
	d := fakes(s)
	d.Stdin = strings.NewReader(podWith("template", "share") +
		"  - {name: inline, nfs: {server: nfs.example, path: /exports/a, readOnly: true}}\n" +
		"---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: share}\nspec: {nfs: {server: nfs.example, path: /exports/b}, mountOptions: [hard]}\n")
	r := s.inProcess(t.Context(), d, "-dry-run", "-f", "-")
	require.Equal(t, 0, r.status, r)
	require.Regexp(t, `v-share +rw +volumes/kubernetes.io~nfs/share +nfs.example:/exports/b \(nfs\)`, r.stdout)
	require.Regexp(t, `inline +ro +volumes/kubernetes.io~nfs/inline +nfs.example:/exports/a \(nfs\)`, r.stdout)
	require.Contains(t, r.stdout, "inline: a nfs of an in-memory kernel has no files.")
	s.requireNothingLeft()
}

// TestNFSViews: a claim of an export that the pod names to read and to write is mounted twice.
func TestNFSViews(t *testing.T) {
	s := newSession(t)
	d := fakes(s)
	d.Stdin = strings.NewReader(
		podWithVolume("{name: reads, persistentVolumeClaim: {claimName: x, readOnly: true}}\n  - {name: writes, persistentVolumeClaim: {claimName: x}}") +
			claimFor("x", "share") +
			"---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: share}\nspec: {nfs: {server: nfs.example, path: /exports/b}}\n")
	r := s.inProcess(t.Context(), d, "-dry-run", "-f", "-")
	require.Equal(t, 0, r.status, r)
	require.Regexp(t, `reads +ro +volumes/kubernetes.io~nfs/share~r +nfs.example:/exports/b \(nfs\)`, r.stdout)
	require.Regexp(t, `writes +rw +volumes/kubernetes.io~nfs/share +nfs.example:/exports/b \(nfs\)`, r.stdout)
	s.requireNothingLeft()
}

const hugePagesPod = `
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: x, resources: {limits: {hugepages-2Mi: 2Mi, memory: 1Mi}}}]
  volumes:
  - {name: pages, emptyDir: {medium: HugePages}}
`

// TestHugePages: write(2) is not for them.
func TestHugePages(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	s := newSession(t)
	probe := s.mkdir("probe")
	if err := exec.Command("mount", "-t", "hugetlbfs", "none", probe).Run(); err != nil {
		mounttest.SkipWithout(t, "hugetlbfs", err)
	}
	require.NoError(t, exec.Command("umount", probe).Run())
	r := s.runWith(hugePagesPod)
	require.Equal(t, 0, r.status, r)
	require.Contains(t, r.stdout, "pages: huge pages, which are for mmap(2): no write is tried.\n")
	s.requireNothingLeft()
}

// TestDevices are for pods of -devices alone.
func TestDevices(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	s := newSession(t)
	pod := podWithVolume("{name: nothing, hostPath: {path: /dev/null, type: CharDevice}}")
	r := s.runWith(pod, "-disks", "/dev", "-devices")
	require.Equal(t, 0, r.status, r)
	require.Contains(t, r.stdout, "nothing: a character device.\n")
	s.requireNothingLeft()
	r = s.runWith(pod, "-disks", "/dev")
	require.Equal(t, 1, r.status, r)
	require.Contains(t, r.stderr, "(here: the flag -devices)")
	s.requireNothingLeft()
}

// runWith runs the program on a manifest.
func (s *session) runWith(manifest string, args ...string) result {
	s.t.Helper()
	cmd := s.command(append(args, "-f", "-")...)
	cmd.Stdin = strings.NewReader(manifest)
	return finish(s.t, cmd)
}

// TestOutputFails checks that a full disk and a closed pipe on standard output are errors
// that end the program, also while it waits, and that it leaves nothing behind.
func TestOutputFails(t *testing.T) {
	asEachUser(t, func(t *testing.T, s *session) {
		testbed.EachFailingOutput(t, func(out *os.File, says string) {
			cmd := s.command("-wait", "1h")
			var stderr strings.Builder
			cmd.Stdout, cmd.Stderr = out, &stderr
			require.Error(t, cmd.Run())
			require.Equal(t, 1, cmd.ProcessState.ExitCode(), stderr.String())
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
			require.Contains(t, stderr.String(), "podvolumes: standard output: ")
			require.Contains(t, stderr.String(), says)
			s.requireNothingLeft()
		})
	})
}

// TestClosedReader while the program waits and has nothing to print.
func TestClosedReader(t *testing.T) {
	asEachUser(t, func(t *testing.T, s *session) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		cmd := s.command("-wait", "1h")
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = w, &stderr
		require.NoError(t, cmd.Start())
		require.NoError(t, w.Close())
		var said strings.Builder
		for b := make([]byte, 4096); !strings.Contains(said.String(), "Waiting for "); {
			n, err := r.Read(b)
			require.NoError(t, err, said.String())
			said.Write(b[:n])
		}
		require.NoError(t, r.Close())
		require.Error(t, cmd.Wait())
		require.Equal(t, "podvolumes: standard output: broken pipe\n", stderr.String())
		s.requireNothingLeft()
	})
}

// TestBlockVolume: a pod has a disk as a raw device, also by two names, one of which only
// reads; nothing is written to it, and nothing is left of it.
func TestBlockVolume(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	s := newSession(t)
	image, disks := s.dir+"/image", s.mkdir("disks")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 1<<20))
	device := testbed.Loop(t, image)
	require.NoError(t, exec.Command("cp", "-a", device, disks+"/disk").Run())

	manifest := strings.Replace(podWith("template", "raw"), "{spec: {volumeName: raw}", "{spec: {volumeName: raw, volumeMode: Block}", 1) +
		diskAt("raw", disks+"/disk", "volumeMode: Block")
	r := s.runWith(manifest, "-disks", disks)
	require.Equal(t, 0, r.status, r)
	require.Regexp(t, `v-raw +rw +volumeDevices/kubernetes.io~local-volume/raw +.* \(a block device\)`, r.stdout)
	require.Contains(t, r.stdout, "v-raw: a block device of 1048576 bytes.\n")
	require.Contains(t, r.stdout, "Took down 1 volume: no mount and no directory is left.")
	s.requireNothingLeft()

	twice := podWithVolume("{name: reads, persistentVolumeClaim: {claimName: x, readOnly: true}}\n  - {name: writes, persistentVolumeClaim: {claimName: x}}") +
		claimFor("x", "raw", "volumeMode: Block") + diskAt("raw", disks+"/disk", "volumeMode: Block")
	r = s.runWith(twice, "-disks", disks)
	require.Equal(t, 0, r.status, r)
	for name, mode := range map[string]string{"reads": "ro", "writes": "rw"} {
		require.Regexp(t, name+` +`+mode+` +volumeDevices/kubernetes.io~local-volume/raw +.*/disks/disk \(a block device\)`, r.stdout)
	}
	s.requireNothingLeft()

	root := s.tmp + "/root"
	r = s.runWith(manifest, "-disks", disks, "-root", root, "-keep")
	require.Equal(t, 0, r.status, r)
	r = s.run("-down", "-root", root)
	require.Equal(t, 0, r.status, r)
	require.Contains(t, r.stdout, "default_p/raw: a block device\n")
	s.requireNothingLeft()

	r = s.runWith(manifest, "-disks", disks, "-dry-run")
	require.Equal(t, 1, r.status, r)
	require.Contains(t, r.stderr, "spec.volumeMode: Forbidden: an in-memory kernel has no block devices")
	s.requireNothingLeft()
}
