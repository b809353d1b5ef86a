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

// countVar names a file that gets a line for each passed test with a server: "nfs", the
// number of NFS mounts in the mount table meanwhile, the number of times that a server was
// dead, and the test's name.
const countVar = "VOLUMEKIT_COUNT_FILE"

// A tally counts a test's mounts and dead servers.
type tally struct {
	mounts, dead atomic.Int64
}

// newTally returns a tally that is written after the test's later cleanups.
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

// watch counts mounts until the test ends, on each change of the mount table.
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

// follow runs on a thread of high priority, else it would miss mounts: the kernel reuses the
// ID of an unmounted one at once. It may count too few, but not too many.
func (n *tally) follow(table, stop *os.File, known map[string]bool) {
	runtime.LockOSThread() // never unlocked
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

// nfsMounts returns the IDs of the NFS mounts.
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
