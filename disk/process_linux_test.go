package disk_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
)

// TestTwoProcesses: Disks of another process that mount the same blank device while mkfs
// starts are refused, and leave nothing on the device: their marker beside the file system
// would make it unusable after the next unmount. A second Disks stands for the process.
func TestTwoProcesses(t *testing.T) {
	onEachType(t, func(t *testing.T, r *rig, fsType string) {
		d := r.disk(t, "disk", sizeFor[fsType])
		other := rigIn(r.dir)
		t.Cleanup(func() { _ = other.mounter.Close() })
		before := beforeProgram{disk.SystemPrograms(), func() {
			err := other.disks.FormatAndMount(t.Context(), r.request(d.device, fsType))
			require.ErrorIs(t, err, disk.ErrInUse)
			require.NotErrorIs(t, err, mount.ErrUncertain)
		}}
		r.disks = disk.New(disk.Config{Mounter: r.mounter, Programs: before})
		r.mount(t, d.device, fsType)
		require.NoError(t, os.WriteFile(r.target()+"/file", []byte("text"), 0o600))
		r.unmount(t)
		r.disks = other.disks
		r.mount(t, d.device, fsType)
		require.FileExists(t, r.target()+"/file")
		r.unmount(t)
	})
}

// A beforeProgram does something before each mkfs.
type beforeProgram struct {
	disk.Programs
	do func()
}

func (p beforeProgram) Run(ctx context.Context, c disk.Command) error {
	if c.Args[0] != "-a" { // fsck
		p.do()
	}
	return p.Programs.Run(ctx, c)
}

// TestContentWrittenDuringCheck: data that another program has written after the probe stays, and a
// device that another program has opened exclusively is unchanged.
func TestContentWrittenDuringCheck(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	for name, test := range map[string]struct {
		begin func(t *testing.T, f *os.File)
		want  any
	}{
		"data": {func(t *testing.T, f *os.File) {
			_, err := f.WriteAt([]byte("precious"), 8<<10)
			require.NoError(t, err)
		}, new(*disk.ContentError)},
		"opened": {func(t *testing.T, f *os.File) {
			exclusive, err := os.OpenFile(f.Name(), os.O_RDONLY|os.O_EXCL, 0)
			require.NoError(t, err)
			t.Cleanup(func() { _ = exclusive.Close() })
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := r.disk(t, name, sizeFor["ext4"])
			f, err := os.OpenFile(d.device, os.O_RDWR, 0)
			require.NoError(t, err)
			defer func() { _ = f.Close() }()
			var written [32]byte
			err = r.disks.Use(t.Context(), d.device, func(ctx context.Context, dev *disk.Device) error {
				return dev.Format(ctx, disk.Format{Begin: func() error {
					test.begin(t, f)
					written = d.sum(t)
					return nil
				}})
			})
			if test.want != nil {
				require.ErrorAs(t, err, test.want)
			} else {
				require.ErrorIs(t, err, disk.ErrInUse)
			}
			require.NotErrorIs(t, err, mount.ErrUncertain)
			require.Equal(t, written, d.sum(t))
		})
	}
}
