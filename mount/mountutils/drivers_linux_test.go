package mountutils_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	"golang.org/x/sys/unix"
	peer "k8s.io/mount-utils"
)

// TestTypeAssertions: the type assertions that drivers make on the result of New succeed.
func TestTypeAssertions(t *testing.T) {
	mounter := mountutils.New(mounttest.NewFake(mount.Config{}))
	//lint:ignore S1040 drivers make this assertion on the result of New in mount-utils
	forcing, ok := mounter.(peer.MounterForceUnmounter)
	require.True(t, ok)
	mounter = forcing
	safe := peer.NewSafeFormatAndMount(mounter, nil)
	_, ok = safe.Interface.(peer.MounterForceUnmounter)
	require.True(t, ok)
}

// TestPropagationAsMount: with WithPropagation a mount has the propagation that mount(8)
// gives it, and without it none.
func TestPropagationAsMount(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	private, dir := newKernelMounter(t, mount.Allow{})
	spread, _ := newKernelMounter(t, mount.Allow{}, mountutils.WithPropagation())
	theirs := peer.New("")
	table := mount.New(mount.Config{})
	kinds := map[string]uintptr{"private": unix.MS_PRIVATE, "shared": unix.MS_SHARED, "slave": unix.MS_SLAVE}
	for name, kind := range kinds {
		for _, on := range []string{"from", "on"} {
			at := dir + "/" + on + "-" + name
			require.NoError(t, os.Mkdir(at, 0o755))
			require.NoError(t, unix.Mount("x", at, "tmpfs", 0, ""))
			require.NoError(t, unix.Mount("", at, "", unix.MS_SHARED, "")) // a slave needs a master
			if kind == unix.MS_SLAVE {
				require.NoError(t, os.Mkdir(at+"-peer", 0o755))
				require.NoError(t, unix.Mount(at, at+"-peer", "", unix.MS_BIND, ""))
			}
			require.NoError(t, unix.Mount("", at, "", kind, ""))
			require.NoError(t, os.Mkdir(at+"/target", 0o755))
			require.NoError(t, os.MkdirAll(at+"/source/later", 0o755))
		}
	}
	// tags returns the propagation tags of a mount. shape replaces each peer group in them by
	// whether the source is in that group, too.
	tags := func(path string) []string {
		list, err := table.List(t.Context())
		require.NoError(t, err)
		at, ok := mount.Table(list).At(path)
		require.True(t, ok, path)
		return at.Tags
	}
	shape := func(target, from string) (shape []string) {
		for _, tag := range tags(target) {
			kind, group, _ := strings.Cut(tag, ":")
			same := slices.ContainsFunc(tags(from), func(tag string) bool { return strings.HasSuffix(tag, ":"+group) })
			shape = append(shape, fmt.Sprint(kind, " of the source's ", same))
		}
		return shape
	}
	for on := range kinds {
		for from := range kinds {
			target, source := dir+"/on-"+on+"/target", dir+"/from-"+from
			for _, test := range []struct{ what, fsType, options string }{
				{source + "/source", "", "bind"}, {source + "/source", "", "rbind"}, {"y", "tmpfs", "size=1m"},
			} {
				if test.fsType != "" && os.Geteuid() != 0 {
					continue
				}
				name := fmt.Sprint(test.options, " from ", from, " on ", on)
				require.NoError(t, theirs.Mount(test.what, target, test.fsType, []string{test.options}), name)
				want := shape(target, source)
				require.NoError(t, unix.Unmount(target, 0))
				require.NoError(t, spread.Mount(test.what, target, test.fsType, []string{test.options}), name)
				require.Equal(t, want, shape(target, source), name)
				require.NoError(t, spread.Unmount(target))
				require.NoError(t, spread.Mount(test.what, target, test.fsType, []string{test.options, "private"}), name)
				require.Empty(t, tags(target), "the option private overrides WithPropagation")
				require.NoError(t, spread.Unmount(target))
				require.NoError(t, private.Mount(test.what, target, test.fsType, []string{test.options}), name)
				require.Empty(t, tags(target), name)
				require.NoError(t, private.Unmount(target))
			}
		}
	}
}

// TestDocumentedDifferences: the behavior differs from mount(8) as the package documents it.
func TestDocumentedDifferences(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m, dir := newKernelMounter(t, mount.Allow{})
	for _, file := range [][2]string{{"/file", "/target-file/"}, {"/file/", "/target-file"}} {
		require.NoError(t, m.Mount(dir+file[0], dir+file[1], "", []string{"bind"}))
		is, err := m.IsMountPoint(dir + "/target-file/")
		require.NoError(t, err)
		require.True(t, is)
		require.NoError(t, m.Unmount(dir+"/target-file/"))
	}
	for _, options := range []string{"remount,ro", "remount,bind,ro"} {
		require.ErrorIs(t, m.Mount(dir+"/source", dir+"/target", "", []string{options}), mount.ErrNotMounted)
	}
	require.NoError(t, unix.Mount("x", dir+"/target", "tmpfs", 0, "")) // as mount(8) does
	require.ErrorAs(t, m.Mount("x", dir+"/target", "tmpfs", nil), new(*mount.FlagsError))
	lenient, _ := newKernelMounter(t, mount.Allow{SUID: true, Dev: true})
	require.NoError(t, lenient.Mount("x", dir+"/target", "tmpfs", nil))
	require.NoError(t, m.Unmount(dir+"/target"))
	require.ErrorAs(t, m.Mount("x", dir+"/target", "tmpfs", []string{"ro", "rw"}), new(*mount.InputError))
	for option, knob := range map[string]string{
		"suid": "Allow.SUID", "dev": "Allow.Dev", "context=x": "Allow.Context", "user": "noexec", "loop": "util/loop",
	} {
		err := m.Mount("x", dir+"/target", "tmpfs", []string{option})
		require.ErrorAs(t, err, new(*mount.InputError), option)
		require.ErrorContains(t, err, knob)
	}
}

// TestCredentialsFile: the helper receives the content of a credentials file that a sensitive
// option names, and no error holds the content.
func TestCredentialsFile(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := newTree(t)
	const content = "username=bobby2\npassword=hunter2,\"`\n"
	require.NoError(t, os.WriteFile(dir+"/credentials", []byte(content), 0o600))
	script := "#!/bin/sh\ncat /proc/self/fd/3 >" + dir + "/got\ncat " + dir + "/got\nexit 1\n"
	require.NoError(t, os.WriteFile(dir+"/mount.cifs", []byte(script), 0o755))
	m := mountutils.New(mount.New(mount.Config{Helpers: []string{dir}, StagingDir: dir + "/staging"}))
	err := m.MountSensitive("//server/share", dir+"/target", "cifs", []string{"vers=3.0"}, []string{"credentials=" + dir + "/credentials"})
	var failed *mount.HelperError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "[redacted] [redacted]", failed.Output)
	got, err := os.ReadFile(dir + "/got")
	require.NoError(t, err)
	require.Equal(t, content, string(got))

	// A comma ends an option, also within a password: the error says what to do instead.
	err = m.MountSensitive("//server/share", dir+"/target", "cifs", nil, []string{"password=hunter2,hunter3"})
	require.ErrorAs(t, err, new(*mount.InputError))
	require.ErrorContains(t, err, "credentials=FILE")
	require.NotContains(t, err.Error(), "hunter")
}
