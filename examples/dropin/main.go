package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// insideVar marks the copy of the program in the namespace: it holds the process ID of its
// parent.
const insideVar = "DROPIN_NAMESPACE_OF"

func main() { os.Exit(start(os.Args[1:], os.Stdout, os.Stderr)) }

// start returns the exit status.
func start(args []string, stdout, stderr *os.File) int {
	ctx, stop := cli.Context()
	defer stop()
	device, err := parse(args, stdout)
	if err != nil {
		return cli.UsageStatus("dropin", err, stderr)
	}
	err = run(ctx, device, stdout, stderr)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return 1 // the copy has printed the error
	}
	return cli.ExitStatus("dropin", err, stderr)
}

// parse prints the usage if the arguments request it, with flag.ErrHelp.
func parse(args []string, help io.Writer) (device string, err error) {
	set := flag.NewFlagSet("dropin", flag.ContinueOnError)
	set.StringVar(&device, "device", "", "a block `DEVICE` instead of a directory, formatted if it is blank: needs root")
	return device, cli.Parse(set, args, help, "dropin is the node side of a driver, which mounts with volumekit since one line of it changed.")
}

func run(ctx context.Context, device string, stdout, stderr *os.File) error {
	switch {
	case device != "":
		if err := checkBlockDevice(device); err != nil {
			return err
		}
		return demonstrate(ctx, volume{source: device, fsType: "ext4", flags: []string{"noatime"}}, stdout)
	case os.Getenv(insideVar) == strconv.Itoa(os.Getppid()):
		if err := mounttest.Privatize(); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		return demonstrate(ctx, volume{}, stdout)
	}
	c := mounttest.Command("/proc/self/exe")
	c.Env = append(os.Environ(), insideVar+"="+strconv.Itoa(os.Getpid()))
	c.Stdout, c.Stderr = stdout, stderr
	return c.Run()
}

// checkBlockDevice protects files: mount-utils would format a file that has no signature of
// a file system.
func checkBlockDevice(device string) error {
	info, err := os.Stat(device)
	if err != nil {
		return fmt.Errorf("-device: %w", err)
	}
	if info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) != fs.ModeDevice {
		return fmt.Errorf("-device %s: not a block device", device)
	}
	return nil
}

// withoutLog silences mount-utils, whose errors repeat its log. mount-utils logs by klog to
// os.Stderr, unless the driver has configured klog.
func withoutLog(work func() error) error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	stderr := os.Stderr
	os.Stderr = null
	defer func() { os.Stderr = stderr }()
	return errors.Join(work(), null.Close())
}

// demonstrate shows the life of a volume. It ends early with ctx, or when its output
// cannot be written.
func demonstrate(ctx context.Context, v volume, stdout io.Writer) (err error) {
	ctx, out := cli.NewOutput(ctx, stdout)
	defer out.Close()
	return withoutLog(func() error { return runLifecycle(ctx, v, out) })
}

func runLifecycle(ctx context.Context, v volume, out *cli.Output) (err error) {
	base, err := os.MkdirTemp("", "dropin-")
	if err != nil {
		return err
	}
	n := &node{newMounter()}
	d := demo{n, v, base, out}
	defer func() { err = errors.Join(err, d.removeAll()) }()
	if v.source == "" {
		d.volume.source = d.path("disk")
		if err := os.Mkdir(d.volume.source, 0o755); err != nil {
			return err
		}
	}
	for _, step := range []func() error{d.publishRaw, d.stageAndPublish, d.listMounts, d.shareFile, d.unpublishAndUnstage} {
		if err := step(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// A demo is a volume on a node with two pods.
type demo struct {
	node   *node
	volume volume
	base   string
	out    io.Writer
}

func (d demo) path(name string) string { return filepath.Join(d.base, name) }

// pods maps each pod to whether it reads only.
var pods = map[string]bool{"pod-a": false, "pod-b": true}

// publishRaw publishes a device as a raw block volume, before it has a file system.
func (d demo) publishRaw() error {
	if d.volume.fsType == "" {
		return nil
	}
	raw := d.path("raw")
	for range 2 {
		if err := d.node.publishDevice(d.volume.source, raw, true); err != nil {
			return fmt.Errorf("publish the raw device: %w", err)
		}
	}
	f, err := os.Open(raw)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "raw      a device of %d bytes\n", size)
	return d.node.remove(raw)
}

func (d demo) stageAndPublish() error {
	for range 2 { // a call may be repeated
		if err := d.node.stage(d.volume, d.path("staging")); err != nil {
			return fmt.Errorf("stage: %w", err)
		}
		for pod, readOnly := range pods {
			if err := d.node.publish(d.volume, d.path("staging"), d.path(pod), readOnly); err != nil {
				return fmt.Errorf("publish for %s: %w", pod, err)
			}
		}
	}
	return nil
}

// listMounts lists the mounts.
func (d demo) listMounts() error {
	points, err := d.node.mounter.List()
	if err != nil {
		return err
	}
	for _, point := range points {
		if name, err := filepath.Rel(d.base, point.Path); err == nil && filepath.IsLocal(name) && name != "." {
			fmt.Fprintf(d.out, "%-8s %s on %s, %s\n", name, point.Type, point.Device, point.Opts[0])
		}
	}
	return nil
}

// shareFile shows that one pod reads the other's file, and cannot write.
func (d demo) shareFile() error {
	const text = "hello"
	if err := os.WriteFile(d.path("pod-a/file"), []byte(text), 0o600); err != nil {
		return err
	}
	got, err := os.ReadFile(d.path("pod-b/file"))
	if err != nil {
		return err
	}
	if string(got) != text {
		return fmt.Errorf("pod-b read %q, expected %q", got, text)
	}
	fmt.Fprintln(d.out, "pod-a wrote a file, and pod-b read it.")
	if err := os.WriteFile(d.path("pod-b/file"), nil, 0o600); err == nil {
		return errors.New("pod-b wrote to a read-only volume")
	}
	fmt.Fprintln(d.out, "pod-b may not write.")
	return nil
}

func (d demo) unpublishAndUnstage() error {
	switch err := d.node.unstage(d.path("staging")); {
	case err == nil:
		return errors.New("unstage a published volume: no error")
	case !errors.Is(err, errInUse):
		return fmt.Errorf("unstage a published volume: %w", err)
	}
	for range 2 {
		for pod := range pods {
			if err := d.node.remove(d.path(pod)); err != nil {
				return fmt.Errorf("unpublish for %s: %w", pod, err)
			}
		}
		if err := d.node.unstage(d.path("staging")); err != nil {
			return fmt.Errorf("unstage: %w", err)
		}
	}
	fmt.Fprintln(d.out, "Took down 3 mounts.")
	return nil
}

// removeAll removes the volume's mounts and directories, also after a failure. It deletes
// nothing through a mount: a directory that is still a mount point is busy or not empty.
func (d demo) removeAll() error {
	var errs []error
	for _, name := range []string{"raw", "pod-a", "pod-b", "staging"} {
		errs = append(errs, d.node.remove(d.path(name)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return errors.Join(removeIfExists(d.path("disk/file")), removeIfExists(d.path("disk")), os.Remove(d.base))
}

func removeIfExists(path string) error {
	if err := os.Remove(path); !os.IsNotExist(err) {
		return err
	}
	return nil
}
