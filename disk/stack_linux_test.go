package disk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestStacks: which devices are a part of which, on a node with all that there is.
func TestStacks(t *testing.T) {
	dir := t.TempDir()
	s := sysfs(dir + "/dev/block")
	require.NoError(t, os.MkdirAll(string(s), 0o755))
	at := map[string]string{}
	add := func(device, place string, slaves ...string) {
		at[device] = filepath.Join(dir, place)
		require.NoError(t, os.MkdirAll(at[device]+"/slaves", 0o755))
		require.NoError(t, os.WriteFile(at[device]+"/dev", []byte(device+"\n"), 0o600))
		require.NoError(t, os.Symlink(at[device], filepath.Join(string(s), device)))
		for _, slave := range slaves {
			require.NoError(t, os.Symlink(at[slave], filepath.Join(at[device], "slaves", filepath.Base(at[slave]))))
		}
	}
	partition := func(device, place string) {
		add(device, place)
		require.NoError(t, os.WriteFile(at[device]+"/partition", []byte("1\n"), 0o600))
	}
	add("8:0", "sda")
	partition("8:1", "sda/sda1")
	partition("8:2", "sda/sda2")
	add("8:16", "sdb")
	add("253:0", "dm-0", "8:1")         // a logical volume
	add("253:1", "dm-1", "8:1", "8:16") // another of the group
	add("253:2", "dm-2", "253:0")       // encrypted
	add("253:3", "dm-3", "8:0")         // multipath
	partition("8:33", "sdc1")           // whose disk is going

	for _, test := range []struct {
		a, b     string
		overlaps bool
	}{
		{"8:0", "8:0", true}, {"8:0", "8:16", false},
		{"8:0", "8:1", true}, {"8:1", "8:2", false}, {"8:1", "8:1", true},
		{"8:0", "253:0", true}, {"8:1", "253:0", true}, {"8:2", "253:0", false},
		{"253:0", "253:1", false}, {"8:16", "253:1", true}, {"8:16", "253:0", false},
		{"253:0", "253:2", true}, {"8:0", "253:2", true}, {"8:2", "253:2", false}, {"253:1", "253:2", false},
		{"253:3", "8:1", true}, {"253:3", "8:0", true}, {"253:3", "8:16", false},
		{"8:33", "8:33", true}, {"8:33", "8:1", false},
		{"7:7", "7:7", true}, {"7:7", "8:0", false}, // gone
	} {
		a, err := s.stackOf(numbered(t, test.a))
		require.NoError(t, err)
		b, err := s.stackOf(numbered(t, test.b))
		require.NoError(t, err)
		require.Equal(t, test.overlaps, a.overlaps(b), "%s and %s", test.a, test.b)
		require.Equal(t, test.overlaps, b.overlaps(a), "%s and %s", test.b, test.a)
	}
	all, err := s.stackOf(numbered(t, "253:0"))
	require.NoError(t, err)
	require.Equal(t, []string{"253:0", "8:0", "8:1"}, all.devices())
}

func numbered(t *testing.T, device string) uint64 {
	t.Helper()
	var major, minor uint32
	_, err := fmt.Sscanf(device, "%d:%d", &major, &minor)
	require.NoError(t, err)
	return unix.Mkdev(major, minor)
}

// TestStacksWithoutDescriptors: what cannot be read for want of them is not taken for
// missing: the disk of a partition, the loop device on a device.
func TestStacksWithoutDescriptors(t *testing.T) {
	if !mounttest.Namespace(t) { // a process of its own
		return
	}
	dir := t.TempDir()
	s := sysfs(dir + "/block")
	require.NoError(t, os.MkdirAll(dir+"/sda/sda1/slaves", 0o755))
	require.NoError(t, os.MkdirAll(string(s), 0o755))
	for name, text := range map[string]string{"/sda/dev": "8:0", "/sda/sda1/dev": "8:1", "/sda/sda1/partition": "1"} {
		require.NoError(t, os.WriteFile(dir+name, []byte(text+"\n"), 0o600))
	}
	require.NoError(t, os.Symlink(dir+"/sda", string(s)+"/8:0"))
	require.NoError(t, os.Symlink(dir+"/sda/sda1", string(s)+"/8:1"))
	number := numbered(t, "8:1")

	restore := testbed.LeaveDescriptors(t, 0)
	_, stacked := s.stackOf(number)
	_, identified := identityOf(number)
	_, held := isBelowLoop(context.Background(), Info{Number: number}, "")
	restore()
	for _, err := range []error{stacked, identified, held} {
		require.ErrorIs(t, err, unix.EMFILE)
	}
	all, err := s.stackOf(number)
	require.NoError(t, err)
	require.Equal(t, []string{"8:0", "8:1"}, all.devices())
}
