package mount_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

func mountTmpfs(t *testing.T, m *mount.Mounter, target string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(target, 0o755))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "x", Target: target, FSType: "tmpfs"}))
}

func entryAt(t *testing.T, m *mount.Mounter, target string) mount.Info {
	t.Helper()
	table, err := m.List(t.Context())
	require.NoError(t, err)
	info, ok := mount.Table(table).At(target)
	require.True(t, ok, target)
	return info
}

// TestSubmounts: the submounts of a source are refused, hidden or included, as the request
// selects; included submounts of a read-only request are read-only.
func TestSubmounts(t *testing.T) {
	onEachTier(t, mounttest.Namespace, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "source", "target")
		source, target := dir+"/source", dir+"/target"
		mountTmpfs(t, m, source)
		mountTmpfs(t, m, source+"/a/below")
		mountTmpfs(t, m, source+"/a/below/deep")
		mountTmpfs(t, m, source+"/ab")

		req := mount.Request{Source: source + "/a", Target: target, Options: []string{"ro"}}
		err := m.Mount(t.Context(), req)
		require.ErrorIs(t, err, mount.ErrSubmounts)
		require.ErrorContains(t, err, "/a/below")
		require.False(t, isMountPoint(t, target))

		req.Submounts = mount.HideSubmounts
		require.NoError(t, m.Mount(t.Context(), req))
		require.False(t, isMountPoint(t, target+"/below"))
		require.NoError(t, m.Unmount(t.Context(), target))

		req.Submounts = mount.IncludeSubmounts
		require.NoError(t, m.Mount(t.Context(), req))
		for _, name := range []string{"", "/below", "/below/deep"} {
			require.True(t, isMountPoint(t, target+name), name)
			require.ErrorIs(t, os.WriteFile(target+name+"/x", nil, 0o600), unix.EROFS)
			require.NoError(t, os.WriteFile(source+"/a"+name+"/x", nil, 0o600), "the source stays writable")
			require.Empty(t, entryAt(t, m, target+name).Tags)
		}
		require.ErrorIs(t, m.Unmount(t.Context(), target), mount.ErrBusy)
		require.NoError(t, m.UnmountTree(t.Context(), target))
		require.False(t, isMountPoint(t, target))
		require.True(t, isMountPoint(t, source+"/a/below/deep"))

		// A mount beside the source is no submount.
		require.NoError(t, m.Unmount(t.Context(), source+"/a/below/deep"))
		require.NoError(t, m.Unmount(t.Context(), source+"/a/below"))
		req.Submounts = mount.RefuseSubmounts
		require.NoError(t, m.Mount(t.Context(), req))
		require.NoError(t, m.Unmount(t.Context(), target))
	})
}

// TestPropagation: a mount has the requested propagation, also if the parent mount of the target
// is shared: the kernel attaches each mount there as a shared one.
func TestPropagation(t *testing.T) {
	onEachTier(t, mounttest.Namespace, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "source", "targets")
		source, targets := dir+"/source", dir+"/targets"
		mountTmpfs(t, m, targets)
		require.NoError(t, unix.Mount("", targets, "", unix.MS_SHARED, ""))
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "x", Target: source, FSType: "tmpfs", Propagation: mount.PropagationShared}))
		require.NoError(t, os.MkdirAll(source+"/later", 0o755))
		for _, test := range []struct {
			propagation mount.Propagation
			tag         string
			to, from    bool
		}{
			{mount.PropagationPrivate, "", false, false},
			{mount.PropagationSlave, "master:", true, false},
			{mount.PropagationShared, "shared:", true, true},
		} {
			target := targets + "/" + strings.TrimSuffix("t"+test.tag, ":")
			require.NoError(t, os.Mkdir(target, 0o755))
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: source, Target: target, Propagation: test.propagation}))
			tags := strings.Join(entryAt(t, m, target).Tags, " ")
			if test.tag == "" {
				require.Empty(t, tags)
			} else {
				require.Regexp(t, "^"+test.tag+"[0-9]+$", tags)
			}
			mountTmpfs(t, m, source+"/later")
			require.Equal(t, test.to, isMountPoint(t, target+"/later"), "%v", test)
			require.NoError(t, m.UnmountTree(t.Context(), source+"/later"))
			mountTmpfs(t, m, target+"/later")
			require.Equal(t, test.from, isMountPoint(t, source+"/later"), "%v", test)
			require.NoError(t, m.UnmountTree(t.Context(), target+"/later"))
			require.NoError(t, m.Unmount(t.Context(), target))
		}

		mountTmpfs(t, m, source+"/later")
		target := targets + "/all"
		require.NoError(t, os.Mkdir(target, 0o755))
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: source, Target: target, Submounts: mount.IncludeSubmounts}))
		require.Empty(t, entryAt(t, m, target).Tags)
		require.Empty(t, entryAt(t, m, target+"/later").Tags)
		require.NoError(t, m.UnmountTree(t.Context(), target))
	})
}

// TestIDMap: the ID map translates owners when files are read and when they are changed.
func TestIDMap(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	for _, tier := range mount.Tiers() {
		dir := mkdirs(t, "source", "target")
		source, target := dir+"/source", dir+"/target"
		m := mount.New(mount.Config{Tier: tier, StagingDir: dir + "/staging"})
		mountTmpfs(t, m, source)
		require.NoError(t, os.WriteFile(source+"/file", nil, 0o644))
		require.NoError(t, os.Chown(source+"/file", 1000, 1001))
		ids := mount.IDMap{
			UIDs: []mount.IDRange{{Stored: 1000, Shown: 5000, Count: 10}},
			GIDs: []mount.IDRange{{Stored: 1001, Shown: 6000, Count: 1}},
		}
		req := mount.Request{Source: source, Target: target, IDMap: ids}
		err := m.Mount(t.Context(), req)
		if errors.Is(err, errors.ErrUnsupported) {
			require.False(t, isMountPoint(t, target))
			if tier != mount.TierClassic {
				mounttest.SkipWithout(t, "idmap", err)
			}
			continue
		}
		require.NoError(t, err)
		require.NotEqual(t, mount.TierClassic, tier)
		require.NoError(t, m.Mount(t.Context(), req), "Mount is idempotent")
		require.ErrorIs(t, m.Mount(t.Context(), mount.Request{Source: source, Target: target}), mount.ErrMounted)
		var stat unix.Stat_t
		require.NoError(t, unix.Stat(target+"/file", &stat))
		require.Equal(t, []uint32{5000, 6000}, []uint32{stat.Uid, stat.Gid})
		require.NoError(t, os.Chown(target+"/file", 5003, 6000))
		require.NoError(t, unix.Stat(source+"/file", &stat))
		require.Equal(t, []uint32{1003, 1001}, []uint32{stat.Uid, stat.Gid})
		require.NoError(t, m.Unmount(t.Context(), target))
	}
}

// TestHiddenSubmountGetsFlags: a submount that another mount hides gets the requested flags. On
// the classic tier the request is refused.
func TestHiddenSubmountGetsFlags(t *testing.T) {
	onEachTier(t, mounttest.Namespace, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "source", "target")
		mountTmpfs(t, m, dir+"/source/a/hidden")
		mountTmpfs(t, m, dir+"/source/a")
		req := mount.Request{Source: dir + "/source", Target: dir + "/target", Options: []string{"ro"}, Submounts: mount.IncludeSubmounts}
		err := m.Mount(t.Context(), req)
		if m.Tier() == mount.TierClassic {
			require.ErrorIs(t, err, errors.ErrUnsupported)
			require.False(t, isMountPoint(t, req.Target))
			return
		}
		require.NoError(t, err)
		require.NoError(t, m.Unmount(t.Context(), req.Target+"/a"))
		require.True(t, isMountPoint(t, req.Target+"/a/hidden"))
		require.ErrorIs(t, os.WriteFile(req.Target+"/a/hidden/x", nil, 0o600), unix.EROFS)
	})
}
