// Bench measures this library beside k8s.io/mount-utils: the same work in turns,
// in one run, with more and more mounts in the mount namespace, and prints the
// medians and their ratio. It runs in a user and mount namespace of its own, and needs
// mount(8) and umount(8) for the other side.
//
// Then it measures what works on the files of a volume, beside how it is commonly done:
// on an ext4 of its own in a file, if it is run as root and there are loop devices, and
// else wherever temporary files are. Each such subject has a file here, and a line in
// subjects.go.
//
//	go run ./bench
//	go run ./bench -only removal
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/mount/mounttest"
)

func main() {
	rounds := flag.Int("rounds", 25, "how often each side is measured")
	counts := flag.String("mounts", "10,1000,10000,95000", "how many `mounts` there are in the namespace")
	only := flag.String("only", "", "measure one `subject`: mounts, or one of subjects.go")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, *counts, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// insideVar says what the program is to measure where it has been started again.
const insideVar = "VOLUMEKIT_BENCH_INSIDE"

func run(ctx context.Context, rounds int, counts, only string) error {
	switch os.Getenv(insideVar) {
	case "mounts":
		return measureMounts(ctx, rounds, counts)
	case "files":
		return measureFiles(ctx, only)
	}
	if only == "" || only == "mounts" {
		if err := rerun(mounttest.Command, "mounts"); err != nil {
			return err
		}
	}
	if only == "mounts" {
		return nil
	}
	return rerun(inOwnMounts, "files")
}

func measureMounts(ctx context.Context, rounds int, counts string) error {
	if _, err := exec.LookPath("mount"); err != nil {
		return err
	}
	if err := mounttest.Privatize(); err != nil {
		return err
	}
	var numbers []int
	for _, text := range strings.Split(counts, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		if n+mostOfOthers > mountMax() {
			fmt.Fprintf(os.Stderr, "bench: fs.mount-max does not allow %d mounts\n", n)
			continue
		}
		numbers = append(numbers, n)
	}
	return measureAll(ctx, rounds, numbers)
}

// mostOfOthers is more than what is mounted in the namespace besides.
const mostOfOthers = 2000

// mountMax returns how many mounts a namespace may have, as far as is known.
func mountMax() int {
	text, err := os.ReadFile("/proc/sys/fs/mount-max")
	if err != nil {
		return 100_000 // the kernel's default
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// rerun runs the program again in namespaces of its own.
func rerun(command func(name string, args ...string) *exec.Cmd, what string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The child dies with the thread that made it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := command(self, os.Args[1:]...)
	c.Env = append(os.Environ(), insideVar+"="+what)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}
