package disk_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/disk/disktest"
	"github.com/volumekit/volumekit/util/progress"
)

// TestProgress: the receiver of the caller's context gets the steps of a device whose programs are slow.
func TestProgress(t *testing.T) {
	for step, test := range map[string]struct {
		hung string
		call func(context.Context, *disk.Disks) error
	}{
		progress.Format: {"mkfs.ext4", func(ctx context.Context, d *disk.Disks) error {
			return d.Format(ctx, disk.FormatRequest{Device: "/dev/blank", FSType: "ext4"})
		}},
		progress.Check: {"fsck.ext4", func(ctx context.Context, d *disk.Disks) error {
			_, err := d.Check(ctx, disk.CheckRequest{Device: "/dev/used"})
			return err
		}},
		progress.Grow: {"resize2fs", func(ctx context.Context, d *disk.Disks) error {
			_, err := d.Grow(ctx, disk.GrowRequest{Device: "/dev/used"})
			return err
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := disktest.NewMachine()
			disks := m.Disks(nil)
			devices := map[string]string{progress.Format: "/dev/blank", progress.Check: "/dev/used", progress.Grow: "/dev/used"}
			m.AddDisk("/dev/blank", 1<<30)
			m.AddDisk("/dev/used", 1<<30)
			require.NoError(t, disks.Format(t.Context(), disk.FormatRequest{Device: "/dev/used", FSType: "ext4"}))
			m.Hang(test.hung, true)
			var reports []string
			ctx, cancel := context.WithTimeout(progress.With(t.Context(), progress.Sparse(func(r progress.Report) {
				reports = append(reports, r.String())
			})), 5*time.Second)
			defer cancel()
			require.ErrorIs(t, test.call(ctx, disks), context.DeadlineExceeded)
			synctest.Wait()
			name := step + " " + devices[step]
			require.Equal(t, []string{name + ": 1s", name + ": ended after 5s"}, reports)
		})
	}
}
