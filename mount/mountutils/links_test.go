package mountutils

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestFollowLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	require.NoError(t, os.MkdirAll(at("real/deep"), 0o755))
	for link, to := range map[string]string{
		"abs": at("real"), "rel": "real", "deep": "rel/deep", "up": "real/deep/..", "self": "self", "dangling": "none/x",
	} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Skip("cannot create symbolic links:", err)
		}
	}
	for path, want := range map[string]string{
		"real": "real", "abs": "real", "rel/deep": "real/deep", "deep": "real/deep", "up": "real",
		"deep/..": "real", "./abs//deep/.": "real/deep", "none": "none", "none/y": "none/y",
		"dangling": "none/x", "dangling/y": "none/x/y",
	} {
		got, err := followLinks(dir + separator + filepath.FromSlash(path))
		require.NoError(t, err, path)
		require.Equal(t, at(want), got, path)
	}
	_, err = followLinks(at("self"))
	require.ErrorIs(t, err, syscall.ELOOP)

	t.Chdir(dir)
	got, err := followLinks("rel/deep")
	require.NoError(t, err)
	require.Equal(t, at("real/deep"), got)
}

// following resolves links in its own way.
type following struct{ mount.Interface }

func (following) FollowLinks(context.Context, string) (string, error) { return "/followed", nil }

// TestWrappedAbilities: the abilities of a mounter inside another are found.
func TestWrappedAbilities(t *testing.T) {
	fake := mounttest.NewFake(mount.Config{})
	got, err := new(links).follow(t.Context(), testbed.Wrapped{Interface: following{fake}}, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, "/followed", got)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	m := &Mounter{mounter: testbed.Wrapped{Interface: fake}}
	require.NoError(t, m.isolate(t.Context(), dir))
	m.mounter = struct{ mount.Interface }{fake}
	require.ErrorIs(t, m.isolate(t.Context(), dir), errors.ErrUnsupported)
}

func TestMapperName(t *testing.T) {
	sysfs := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(sysfs, "dm-3", "dm"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(sysfs, "dm-3", "dm", "name"), []byte("vg-lv\n"), 0o600))
	require.Equal(t, "/dev/mapper/vg-lv", mapperName(sysfs, "/dev/dm-3"))
	require.Equal(t, "/dev/dm-4", mapperName(sysfs, "/dev/dm-4"))
	require.Equal(t, "/dev/sda", mapperName(sysfs, "/dev/sda"))
}
