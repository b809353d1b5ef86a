package podvolume

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// kubeletSetUp makes the volume as the kubelet does, and its note with the given mode.
func (n *dirsNode) kubeletSetUp(t *testing.T, want Dir, mode os.FileMode) (note string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(n.dir, 0o755))
	if want.Mount != nil {
		m := n.mounts.mounter
		req := *want.Mount
		req.Target = n.dir
		require.NoError(t, m.Mount(t.Context(), req))
	}
	require.NoError(t, os.Chmod(n.dir, 0o700), "by the pod")
	require.NoError(t, os.WriteFile(n.dir+"/file", []byte("pod"), 0o600))
	note = n.host.Root() + "/pods/uid/plugins/kubernetes.io~empty-dir/wrapped_v/ready"
	require.NoError(t, os.MkdirAll(filepath.Dir(note), 0o755))
	require.NoError(t, os.WriteFile(note, nil, mode))
	require.NoError(t, os.Chmod(note, mode))
	return note
}

// TestPodDirsOfKubelet: a volume that the kubelet has noted keeps its mode and content, is filled
// and noted; the kubelet's note stays until the tear-down, which leaves nothing.
func TestPodDirsOfKubelet(t *testing.T) {
	onEachDirs(t, func(t *testing.T, n *dirsNode, want Dir) {
		note := n.kubeletSetUp(t, want, 0o644)
		_, err := n.Find(t.Context(), n.dir)
		require.ErrorIs(t, err, volume.ErrUncertain)

		want.Record = json.RawMessage(`{}`)
		fills, errFill := 0, errors.New("no object")
		want.Fill = func(context.Context, string) error { fills++; return errFill }
		require.ErrorIs(t, n.SetUp(t.Context(), n.dir, want), errFill)
		require.FileExists(t, note, "after an error the volume is the kubelet's")
		errFill = nil
		for range 2 {
			require.NoError(t, n.SetUp(t.Context(), n.dir, want))
			require.FileExists(t, note)
			require.FileExists(t, n.dir+"/file")
			info, err := os.Stat(n.dir)
			require.NoError(t, err)
			require.Equal(t, os.ModeDir|0o700, info.Mode())
			record, err := n.Find(t.Context(), n.dir)
			require.NoError(t, err)
			require.JSONEq(t, `{}`, string(record))
		}
		require.Equal(t, 3, fills)
		require.NoError(t, n.TearDown(t.Context(), n.dir))
		n.requireGone(t)
	})
}

// TestPodDirsNotOfKubelet: a torn note of this package, or a directory without a mount in the
// place of a volume in memory, is no volume of the kubelet.
func TestPodDirsNotOfKubelet(t *testing.T) {
	plain := Dir{Mode: 0o777}
	inMemory := Dir{Mode: 0o777, Mount: &mount.Request{Source: "tmpfs", FSType: "tmpfs"}}
	for name, test := range map[string]struct {
		have, want Dir
		note       os.FileMode
	}{
		"torn":     {plain, plain, 0o640},
		"no tmpfs": {plain, inMemory, 0o644},
	} {
		t.Run(name, func(t *testing.T) {
			n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
			n.kubeletSetUp(t, test.have, test.note)
			require.NoError(t, n.SetUp(t.Context(), n.dir, test.want))
			info, err := os.Stat(n.dir)
			require.NoError(t, err)
			require.Equal(t, os.ModeDir|0o777, info.Mode())
		})
	}
}

// TestPodDirsNoteFiles: a note is a file if the configuration says so, also of a volume with an
// attribute of before. Nothing is left.
func TestPodDirsNoteFiles(t *testing.T) {
	n := newMarkedNode(t)
	want := Dir{Mode: 0o777, Record: json.RawMessage(`{}`)}
	files := NewDirs(n.host, n.mounts.mounter, dirsPlugin, WithNoteFiles())
	for name, first := range map[string]*Dirs{"new": files, "marked": n.Dirs} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, first.SetUp(t.Context(), n.dir, want))
			require.NoError(t, files.SetUp(t.Context(), n.dir, want))
			require.FileExists(t, n.note)
			_, err := n.Find(t.Context(), n.dir)
			require.NoError(t, err)
			require.NoError(t, files.TearDown(t.Context(), n.dir))
			n.requireGone(t)
		})
	}
}

// TestMountsTighten: a mount that lacks nosuid, nodev or both gets them in place, and ro if it lacks
// that, too. A mount with another difference stays, with an error.
func TestMountsTighten(t *testing.T) {
	allow := mount.Config{Allow: mount.Allow{SUID: true, Dev: true}}
	safe := []string{"nosuid", "nodev"}
	for name, test := range map[string]struct {
		have, want []string
		refused    bool
	}{
		"both":            {have: nil, want: safe},
		"nosuid":          {have: []string{"nodev"}, want: safe},
		"nodev":           {have: []string{"nosuid", "noexec"}, want: []string{"nosuid", "nodev", "noexec"}},
		"also read-only":  {have: nil, want: []string{"nosuid", "nodev", "ro"}},
		"nodev and ro":    {have: []string{"nosuid"}, want: []string{"nosuid", "nodev", "ro"}},
		"read-only":       {have: []string{"ro"}, want: []string{"nosuid", "nodev", "ro"}},
		"ro alone":        {have: safe, want: []string{"nosuid", "nodev", "ro"}, refused: true},
		"also read-write": {have: []string{"ro"}, want: safe, refused: true},
		"also exec":       {have: []string{"noexec"}, want: safe, refused: true},
		"weaker":          {have: safe, want: nil, refused: true},
	} {
		t.Run(name+"/fake", func(t *testing.T) {
			testTighten(t, mounttest.NewFake(allow), test.have, test.want, test.refused)
		})
		t.Run(name+"/real", func(t *testing.T) {
			if mounttest.Namespace(t) {
				testTighten(t, mount.New(allow), test.have, test.want, test.refused)
			}
		})
	}
}

func testTighten(t *testing.T, m mount.Interface, have, want []string, refused bool) {
	n := newDirsNode(t, m)
	require.NoError(t, os.MkdirAll(n.dir, 0o755))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "tmpfs", Target: n.dir, FSType: "tmpfs", Options: have}))
	before, err := m.Resolve(t.Context(), n.dir)
	require.NoError(t, err)
	err = n.mounts.SetUp(t.Context(), n.dir, mount.Request{Source: "tmpfs", FSType: "tmpfs", Options: want})
	after, failed := m.Resolve(t.Context(), n.dir)
	require.NoError(t, failed)
	require.Equal(t, before.Mount.ID, after.Mount.ID)
	if refused {
		require.ErrorIs(t, err, volume.ErrAlreadyMounted)
		require.Equal(t, before.Mount.Flags, after.Mount.Flags)
		return
	}
	require.NoError(t, err)
	wanted := before.Mount.Flags | mount.NoSUID | mount.NoDev
	if slices.Contains(want, "ro") {
		wanted |= mount.ReadOnly
	}
	require.Equal(t, wanted, after.Mount.Flags)
}

// TestMountsTightenWriter: a mount with a file that is open for writing does not become read-only.
// Its error names both reasons, and SetUp succeeds when the file is closed.
func TestMountsTightenWriter(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m := mount.New(mount.Config{Allow: mount.Allow{SUID: true, Dev: true}})
	n := newDirsNode(t, m)
	require.NoError(t, os.MkdirAll(n.dir, 0o755))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "tmpfs", Target: n.dir, FSType: "tmpfs"}))
	writer, err := os.Create(n.dir + "/file")
	require.NoError(t, err)
	req := mount.Request{Source: "tmpfs", FSType: "tmpfs", Options: []string{"nosuid", "nodev", "ro"}}
	err = n.mounts.SetUp(t.Context(), n.dir, req)
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	require.ErrorIs(t, err, syscall.EBUSY)
	at, err := m.Resolve(t.Context(), n.dir)
	require.NoError(t, err)
	require.Zero(t, at.Mount.Flags)
	require.NoError(t, writer.Close())
	require.NoError(t, n.mounts.SetUp(t.Context(), n.dir, req))
}
