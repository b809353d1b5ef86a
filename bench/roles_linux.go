package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// roleVar is the environment variable with the role of a process that this program has started.
const roleVar = "VOLUMEKIT_BENCH_ROLE"

// runRole runs a role, which may be the name of a subject.
func runRole(ctx context.Context, role string, o options) error {
	switch {
	case role == "trace":
		return trace()
	case role == "spin":
		return spin(ctx)
	case strings.HasPrefix(role, foreignMounterRole):
		return mountRepeatedly(ctx, strings.TrimPrefix(role, foreignMounterRole))
	}
	i := slices.IndexFunc(subjects, func(s subject) bool { return s.name == role })
	if i < 0 {
		return fmt.Errorf("%q: %w", role, errNoSubject)
	}
	return measureSubject(ctx, subjects[i], o)
}

// measureAll measures the subjects one after another, o.runs times.
func measureAll(ctx context.Context, o options) (rows []Row, err error) {
	chosen, err := choose(o.only)
	if err != nil {
		return nil, err
	}
	for range o.runs {
		for _, busy := range []bool{false, true}[:1+min(o.load, 1)] {
			spinners := 0
			if busy {
				spinners = o.load
			}
			more, err := measureEach(ctx, chosen, spinners)
			rows = append(rows, more...)
			if err != nil {
				return rows, err
			}
		}
	}
	return rows, nil
}

var errNoSubject = errors.New("unknown subject")

func choose(only string) (chosen []subject, err error) {
	if only == "" {
		return subjects, nil
	}
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(subjects, func(s subject) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("%q: %w", name, errNoSubject)
		}
		chosen = append(chosen, subjects[i])
	}
	return chosen, nil
}

// measureEach measures each subject in a process of its own, beside spinning processes.
func measureEach(ctx context.Context, chosen []subject, spinners int) (rows []Row, err error) {
	// Pdeathsig kills a child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stop, err := startAll(spinners, "spin")
	defer stop()
	if err != nil {
		return nil, err
	}
	var flags []string
	if spinners > 0 { // the scheduler's time slices last milliseconds
		flags = []string{"-batch=20ms", "-budget=3s"}
	}
	for _, s := range chosen {
		fmt.Fprintln(os.Stderr, "bench:", s.name)
		more, err := runSubject(ctx, s, flags...)
		for i := range more {
			more[i].Busy = spinners > 0
		}
		rows = append(rows, more...)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return rows, nil
}

// runSubject starts the subject's process, and returns the rows that it writes.
func runSubject(ctx context.Context, s subject, flags ...string) ([]Row, error) {
	dir, err := os.MkdirTemp("", "volumekit-bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the mounts have ended with the process
	self, err := program(s.name)
	if err != nil {
		return nil, err
	}
	c := inOwnMounts(self.Path, append(self.Args[1:], flags...)...)
	c.Env, c.Stderr, c.Dir = self.Env, os.Stderr, dir
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, err
	}
	rows, err := readRows(out)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return rows, errors.Join(err, c.Wait())
}

// measureSubject measures a subject in its own process.
func measureSubject(ctx context.Context, s subject, o options) error {
	if err := mounttest.Privatize(); err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return err
	}
	b := &bench{ctx: ctx, subject: s.name, dir: filepath.Join(dir, "bench"), rounds: o.rounds, budget: o.budget, batch: o.batch, out: json.NewEncoder(os.Stdout)}
	if b.mounts, err = allowedMounts(o.mounts); err != nil {
		return err
	}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		return err
	}
	if s.disk {
		err = onDisk(ctx, b.dir)
	} else {
		err = syscall.Mount("bench", b.dir, "tmpfs", 0, "")
	}
	if err != nil {
		return err
	}
	return s.measure(b)
}

// allowedMounts returns the numbers of mounts that the kernel's limit allows.
func allowedMounts(list string) (numbers []int, err error) {
	const others = 2000 // more than the number of other mounts
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		if n+others > mountMax() {
			fmt.Fprintf(os.Stderr, "bench: fs.mount-max does not allow %d mounts\n", n)
			continue
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// mountMax returns the kernel's limit of mounts in a namespace, or its default.
func mountMax() int {
	text, err := os.ReadFile("/proc/sys/fs/mount-max")
	if err != nil {
		return 100_000 // the kernel's default
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// startAll starts processes in a role, which end with this thread at the latest. It returns a
// function that stops them, also along with an error.
func startAll(n int, role string) (stop func(), err error) {
	var all []*exec.Cmd
	stop = func() {
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	for range n {
		c, err := program(role)
		if err != nil {
			return stop, err
		}
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			return stop, err
		}
		all = append(all, c)
	}
	return stop, nil
}

// spin keeps one processor busy.
func spin(ctx context.Context) error {
	runtime.GOMAXPROCS(1)
	for ctx.Err() == nil {
		for range 1_000_000 {
		}
	}
	return nil
}
