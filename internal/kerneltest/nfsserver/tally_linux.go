package nfsserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// countVar names a file that gets a line for each test that passed with a server:
// "nfs", how many mounts of NFS the kernel's table showed meanwhile, how many times
// a server was dead, and the test's name.
const countVar = "VOLUMEKIT_COUNT_FILE"

// A tally is what a test did.
type tally struct {
	mounts, dead atomic.Int64
}

// newTally writes the tally down when the test has ended, after all that is
// registered later.
func newTally(t testing.TB) *tally {
	t.Helper()
	n := new(tally)
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		if err := n.write(t.Name()); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *tally) write(test string) error {
	name := os.Getenv(countVar)
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, "nfs", n.mounts.Load(), n.dead.Load(), test)
	return errors.Join(err, f.Close())
}

// watch counts mounts until the test ends: the kernel tells of changes.
func (n *tally) watch(t testing.TB) {
	t.Helper()
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped, err := os.Pipe()
	if err != nil {
		t.Fatal(errors.Join(err, table.Close()))
	}
	known := nfsMounts(table)
	var watching sync.WaitGroup
	watching.Go(func() { n.follow(table, stop, known) })
	t.Cleanup(func() {
		if err := stopped.Close(); err != nil {
			t.Error(err)
		}
		watching.Wait()
		_, _ = table.Close(), stop.Close()
	})
}

// follow runs on a thread that goes before others, or it would miss much: the ID of
// what is unmounted is the next one's. It may still count too few, but not too many.
func (n *tally) follow(table, stop *os.File, known map[string]bool) {
	runtime.LockOSThread() // for ever
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	fds := []unix.PollFd{{Fd: int32(table.Fd()), Events: unix.POLLPRI}, {Fd: int32(stop.Fd())}}
	for {
		if _, err := unix.Poll(fds, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil || fds[1].Revents != 0 {
			return
		}
		now := nfsMounts(table)
		for id := range now {
			if !known[id] {
				n.mounts.Add(1)
			}
		}
		known = now
	}
}

// nfsMounts returns the IDs of what is mounted from an NFS server.
func nfsMounts(table *os.File) map[string]bool {
	mounts := map[string]bool{}
	text, err := io.ReadAll(io.NewSectionReader(table, 0, math.MaxInt64))
	if err != nil {
		return mounts
	}
	for line := range bytes.Lines(text) {
		id, rest, _ := bytes.Cut(line, []byte(" "))
		if bytes.Contains(rest, []byte(" - nfs ")) || bytes.Contains(rest, []byte(" - nfs4 ")) {
			mounts[string(id)] = true
		}
	}
	return mounts
}
