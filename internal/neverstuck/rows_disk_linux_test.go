package neverstuck

import (
	"context"
	"io"
	"os"
	"syscall"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mountutils"
)

// rowsOfDisk returns rows about a device that is a file on the hung file system, and about a
// device node on it.
func rowsOfDisk() map[string]row {
	all := map[string]row{}
	path := func(name string, call func(ctx context.Context, disks *disk.Disks, device, target string) error) {
		all["disk.Disks."+name] = func(r *rig) func(context.Context) error {
			disks, target := disk.New(disk.Config{Mounter: r.mounter}), r.target()
			return func(ctx context.Context) error { return call(ctx, disks, r.hung+"/device", target) }
		}
	}
	path("Identify", func(ctx context.Context, d *disk.Disks, device, _ string) error {
		_, err := d.Identify(ctx, device)
		return err
	})
	path("Probe", func(ctx context.Context, d *disk.Disks, device, _ string) error {
		_, err := d.Probe(ctx, device)
		return err
	})
	path("Use", func(ctx context.Context, d *disk.Disks, device, _ string) error {
		return d.Use(ctx, device, func(context.Context, *disk.Device) error { return nil })
	})
	path("Format", func(ctx context.Context, d *disk.Disks, device, _ string) error {
		return d.Format(ctx, disk.FormatRequest{Device: device})
	})
	path("Check", func(ctx context.Context, d *disk.Disks, device, _ string) error {
		_, err := d.Check(ctx, disk.CheckRequest{Device: device})
		return err
	})
	path("FormatAndMount", func(ctx context.Context, d *disk.Disks, device, target string) error {
		return d.FormatAndMount(ctx, disk.MountRequest{Device: device, Target: target})
	})
	path("Grow", func(ctx context.Context, d *disk.Disks, device, target string) error {
		_, err := d.Grow(ctx, disk.GrowRequest{Device: device, Target: target})
		return err
	})
	path("NeedsGrow", func(ctx context.Context, d *disk.Disks, device, target string) error {
		_, err := d.NeedsGrow(ctx, disk.GrowRequest{Device: device, Target: target})
		return err
	})
	all["mount/mountutils.NewResizeFs"] = func(r *rig) func(context.Context) error {
		disks := disk.New(disk.Config{Mounter: r.mounter})
		return func(ctx context.Context) error {
			_, err := mountutils.NewResizeFs(ctx, disks).Resize(r.hung+"/device", "")
			return err
		}
	}
	for name, call := range map[string]func(ctx context.Context, d *disk.Device, target string) error{
		"Claim":       func(ctx context.Context, d *disk.Device, _ string) error { return d.Claim(ctx) },
		"InUse":       func(ctx context.Context, d *disk.Device, _ string) error { _, err := d.InUse(ctx, ""); return err },
		"IsBelowLoop": func(ctx context.Context, d *disk.Device, _ string) error { _, err := d.IsBelowLoop(ctx); return err },
		"Probe":       func(ctx context.Context, d *disk.Device, _ string) error { _, err := d.Probe(ctx); return err },
		"CheckNode":   func(ctx context.Context, d *disk.Device, _ string) error { return d.CheckNode(ctx) },
		"Prepare": func(ctx context.Context, d *disk.Device, _ string) error {
			_, err := d.Prepare(ctx, disk.Preparation{})
			return err
		},
		"Explain": func(ctx context.Context, d *disk.Device, _ string) error {
			return d.Explain(ctx, "xfs", mount.New(mount.Config{}).List, syscall.EINVAL)
		},
		"Format": func(ctx context.Context, d *disk.Device, _ string) error { return d.Format(ctx, disk.Format{}) },
		"Repair": func(ctx context.Context, d *disk.Device, _ string) error { _, err := d.Repair(ctx, "ext4"); return err },
		"Grow":   func(ctx context.Context, d *disk.Device, target string) error { return d.Grow(ctx, "ext4", target) },
		"Mount": func(ctx context.Context, d *disk.Device, target string) error {
			return d.Mount(ctx, mount.Request{Target: target, FSType: "ext4"})
		},
		"NeedsGrow": func(ctx context.Context, d *disk.Device, target string) error {
			_, err := d.NeedsGrow(ctx, "ext4", target)
			return err
		},
		"Sizes": func(ctx context.Context, d *disk.Device, target string) error {
			_, err := d.Sizes(ctx, "ext4", target)
			return err
		},
	} {
		all["disk.Device."+name] = func(r *rig) func(context.Context) error {
			d, target := openDevice(r), r.target()
			if name != "Prepare" { // which claims the device
				require.NoError(r, d.Claim(r.Context())) // the claim stays meanwhile
			}
			return func(ctx context.Context) error { return call(ctx, d, target) }
		}
	}
	return all
}

// openDevice returns a device that is open until the row ends, and not claimed.
func openDevice(r *rig) *disk.Device {
	file := deviceFile{r.hung + "/empty/x"}
	disks := disk.New(disk.Config{Mounter: r.mounter, Devices: file, Programs: file})
	opened, release := make(chan *disk.Device), make(chan struct{})
	go func() {
		_ = disks.Use(context.Background(), file.name, func(_ context.Context, d *disk.Device) error {
			opened <- d
			<-release
			return nil
		})
	}()
	r.Cleanup(func() { close(release) })
	return <-opened
}

// deviceFile is a device whose queries access a file, as do the programs that it runs.
type deviceFile struct{ name string }

func (a deviceFile) stat() error { _, err := os.Stat(a.name); return err }

func (a deviceFile) Open(string) (disk.Handle, error)            { return a, nil }
func (a deviceFile) Identify(string) (disk.Info, error)          { return a.Info(), a.stat() }
func (a deviceFile) Info() disk.Info                             { return disk.Info{Path: a.name, Size: 1 << 30} }
func (a deviceFile) File() *os.File                              { return nil }
func (a deviceFile) Close() error                                { return nil }
func (a deviceFile) ReadAt([]byte, int64) (int, error)           { return 0, a.stat() }
func (a deviceFile) InUse(context.Context, string) (bool, error) { return false, a.stat() }
func (a deviceFile) Write(func(io.WriterAt) error) error         { return a.stat() }
func (a deviceFile) LookPath(string) error                       { return nil }
func (a deviceFile) Run(context.Context, disk.Command) error     { return a.stat() }
