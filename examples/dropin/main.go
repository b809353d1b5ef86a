package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/volumekit/volumekit/mount/mounttest"
	utilexec "k8s.io/utils/exec"
)

// insideVar tells the copy of the program in the namespace that it is one: it
// holds the process ID of its parent.
const insideVar = "DROPIN_NAMESPACE_OF"

func main() {
	device := flag.String("device", "", "a block device instead of a directory: needs root, and is `formatted` if it is empty")
	flag.Parse()
	if err := run(*device, os.Stdout); err != nil {
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) { // the copy has said what is wrong
			fmt.Fprintln(os.Stderr, "dropin:", err)
		}
		os.Exit(1)
	}
}

func run(device string, out io.Writer) error {
	switch {
	case device != "":
		return demonstrate(volume{source: device, fsType: "ext4", flags: []string{"noatime"}}, out)
	case os.Getenv(insideVar) == strconv.Itoa(os.Getppid()):
		if err := mounttest.Privatize(); err != nil {
			return fmt.Errorf("nothing can be mounted here: %w", err)
		}
		return demonstrate(volume{}, out)
	}
	c := mounttest.Command("/proc/self/exe")
	c.Env = append(os.Environ(), insideVar+"="+strconv.Itoa(os.Getpid()))
	c.Stdout, c.Stderr = out, os.Stderr
	return c.Run()
}

// demonstrate is a day in the life of a volume.
func demonstrate(v volume, out io.Writer) (err error) {
	base, err := os.MkdirTemp("", "dropin-")
	if err != nil {
		return err
	}
	n := newNode(newMounter(), utilexec.New())
	d := demo{n, v, base, out}
	defer func() { err = errors.Join(err, d.clean()) }()
	if v.source == "" {
		d.volume.source = d.path("disk")
		if err := os.Mkdir(d.volume.source, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(d.up(), d.down())
}

// A demo is a volume on a node with two pods.
type demo struct {
	node   *node
	volume volume
	base   string
	out    io.Writer
}

func (d demo) path(name string) string { return filepath.Join(d.base, name) }

// pods has for each whether it reads only.
var pods = map[string]bool{"pod-a": false, "pod-b": true}

func (d demo) up() error {
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
	if err := d.show(); err != nil {
		return err
	}
	return d.use()
}

// show lists what is mounted.
func (d demo) show() error {
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

// use shows that what one pod writes the other reads, and only reads.
func (d demo) use() error {
	const text = "hello"
	if err := os.WriteFile(d.path("pod-a/file"), []byte(text), 0o600); err != nil {
		return err
	}
	got, err := os.ReadFile(d.path("pod-b/file"))
	if err != nil {
		return err
	}
	if string(got) != text {
		return fmt.Errorf("pod-b read %q", got)
	}
	fmt.Fprintln(d.out, "pod-a wrote a file, and pod-b read it.")
	if err := os.WriteFile(d.path("pod-b/file"), nil, 0o600); err == nil {
		return errors.New("pod-b wrote to a read-only volume")
	}
	fmt.Fprintln(d.out, "pod-b may not write.")
	return nil
}

func (d demo) down() error {
	if err := d.node.unstage(d.path("staging")); !errors.Is(err, errInUse) {
		return fmt.Errorf("unstage while pods have it: %w", err)
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

// clean removes what is left, also after a failure. It deletes nothing through a
// mount: a directory that is still one is not empty, or busy.
func (d demo) clean() error {
	var errs []error
	for _, name := range []string{"pod-a", "pod-b", "staging"} {
		errs = append(errs, d.node.remove(d.path(name)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return errors.Join(removeIfThere(d.path("disk/file")), removeIfThere(d.path("disk")), os.Remove(d.base))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !os.IsNotExist(err) {
		return err
	}
	return nil
}
