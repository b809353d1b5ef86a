package mountutils_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mountutils"
)

// TestZeroValues: zero values refuse every call with an InputError.
func TestZeroValues(t *testing.T) {
	dir := t.TempDir()
	result := func(_ any, err error) error { return err }
	for name, m := range map[string]interface {
		Mount(source, target, fsType string, options []string) error
		Unmount(target string) error
		IsMountPoint(file string) (bool, error)
		GetMountRefs(path string) ([]string, error)
	}{"zero": new(mountutils.Mounter), "nil": mountutils.New(nil)} {
		for call, err := range map[string]error{
			"Mount":        m.Mount(dir, dir, "", []string{"bind"}),
			"Unmount":      m.Unmount(dir),
			"IsMountPoint": result(m.IsMountPoint(dir)),
			"GetMountRefs": result(m.GetMountRefs(dir)),
		} {
			require.ErrorAs(t, err, new(*mount.InputError), "%s %s", name, call)
		}
	}
	require.ErrorAs(t, result(new(mountutils.Mounter).List()), new(*mount.InputError))

	safe, resize := new(mountutils.SafeFormatAndMount), new(mountutils.ResizeFs)
	for call, err := range map[string]error{
		"FormatAndMount": safe.FormatAndMount(dir, dir, "ext4", nil),
		"GetDiskFormat":  result(safe.GetDiskFormat(dir)),
		"Resize":         result(resize.Resize(dir, dir)),
		"Resize, device": result(resize.Resize(dir, "")),
		"NeedResize":     result(resize.NeedResize(dir, dir)),
	} {
		require.ErrorAs(t, err, new(*disk.InputError), call)
	}
}
