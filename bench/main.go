// Bench measures this library beside k8s.io/mount-utils: the same work in turns,
// in one run, with more and more mounts in the mount namespace, and prints the
// medians and their ratio; then, beside os.RemoveAll, what emptying a directory takes;
// and, as root, what it takes to give many files to a group, beside a walk by path.
// It runs in a user and mount namespace of its own, and needs mount(8) and umount(8)
// for the other side.
//
//	go run ./bench
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/mount/mounttest"
)

const insideVar = "VOLUMEKIT_BENCH_INSIDE"

// insideRoot is its value in a namespace of the machine's root.
const insideRoot = "root"

func main() {
	rounds := flag.Int("rounds", 25, "how often each side is measured")
	counts := flag.String("mounts", "10,1000,10000,95000", "how many `mounts` there are in the namespace")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, *counts); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, counts string) error {
	switch os.Getenv(insideVar) {
	case "":
		return errors.Join(rerun(), rerunAsRoot())
	case insideRoot:
		return measureAsRoot(ctx)
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

// rerun runs the program again in a namespace of its own.
func rerun() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("mount"); err != nil {
		return err
	}
	c := mounttest.Command(self, os.Args[1:]...)
	c.Env = append(os.Environ(), insideVar+"=1")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}
