package record_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// procMountID returns the unique mount ID of /proc. Without records the test is skipped.
func procMountID(t *testing.T) uint64 {
	t.Helper()
	fd, err := unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer kernel.Close(fd)
	unique, err := kernel.UniqueMountID(fd)
	if err == nil {
		err = record.CheckListing()
	}
	if errors.Is(err, errors.ErrUnsupported) {
		mounttest.SkipWithout(t, "statmount", err)
	}
	require.NoError(t, err)
	return unique
}

// TestRecordEqualsTableEntry: a record equals the entry of the mount table.
func TestRecordEqualsTableEntry(t *testing.T) {
	unique := procMountID(t)
	r, err := new(record.Reader).Read(unique, record.WantLine)
	require.NoError(t, err)
	require.Equal(t, []string{"/", "/proc", "proc"}, []string{string(r.RootPath()), string(r.MountPoint()), r.FSType()})
	table, err := os.ReadFile("/proc/thread-self/mountinfo")
	require.NoError(t, err)
	require.Contains(t, string(table), " / /proc "+strings.Join(r.MountOptions(), ",")+" ")

	b, err := record.ReadBasic(unique)
	require.NoError(t, err)
	require.Equal(t, record.Basic{
		ParentID: uint64(r.TableParentID), ParentUniqueID: r.Parent, Attrs: r.Attrs, Propagation: b.Propagation,
		IDMapped: false, SuperReadOnly: slices.Contains(r.SuperOptions(), "ro"),
	}, b)
	all, err := record.List()
	require.NoError(t, err)
	require.Contains(t, all, unique)
	inside, err := record.HasMountsIn(r.Parent)
	require.NoError(t, err)
	require.True(t, inside)
	below, err := record.ListIn(r.Parent)
	require.NoError(t, err)
	require.Contains(t, below, unique)
}

func TestMissingMount(t *testing.T) {
	procMountID(t)
	_, err := new(record.Reader).Read(1<<60, record.WantPoint)
	require.ErrorIs(t, err, unix.ENOENT)
	_, err = record.ReadBasic(1 << 60)
	require.ErrorIs(t, err, unix.ENOENT)
}

func TestKinds(t *testing.T) {
	id := kernel.MountID{Number: procMountID(t), Unique: true}
	var kinds record.Kinds
	require.False(t, kinds.IsLocal(id))
	require.Equal(t, map[uint64]uint64{id.Number: unix.PROC_SUPER_MAGIC}, kinds.Known())
	kinds.Known()[id.Number] = unix.EXT4_SUPER_MAGIC
	require.True(t, kinds.IsLocal(id), "the kind is remembered")
	require.False(t, kinds.IsInMemory(id))
	require.False(t, kinds.IsLocal(kernel.MountID{Number: id.Number}), "no unique mount ID")
}
