package nfsserver

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/volumekit/volumekit/internal/kerneltest/link"
	"golang.org/x/sys/unix"
)

// A site is the network namespace of a server.
type site struct {
	address, device string
	do              func(func() error) error // calls a function in the namespace
	v3              bool                     // the server speaks NFSv3, too
}

// here is the test's own namespace.
var here = site{address: IPv4, device: "lo", do: func(f func() error) error { return f() }}

// ServeFar is [Serve] for a server that is another machine to its clients: it has a network
// namespace of its own, at the other end of a cable, and LinkDown cuts that cable alone.
// There can be one beside the one of Serve.
func ServeFar(t testing.TB, exports ...Export) *Server {
	t.Helper()
	requireServer(t)
	tally := newTally(t)
	far, end, err := newFar()
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("end the network: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("a network of its own: %v", err)
	}
	return serve(t, tally, far, exports)
}

// NewFar is [ServeFar] for programs: it returns errors, and end ends the server and its
// network.
func NewFar(dirs ...string) (s *Server, end func() error, err error) {
	far, endNetwork, err := newFar()
	if err == nil {
		s, err = newServer(far, plain(dirs))
	}
	if err != nil {
		return nil, nil, errors.Join(err, endNetwork())
	}
	return s, func() error { return errors.Join(s.Close(), endNetwork()) }, nil
}

// The ends of the cable.
const nearDevice, farDevice = "near0", "far0"

// newFar makes the network. The caller calls end also after an error.
func newFar() (far site, end func() error, err error) {
	thread, err := newThread(unix.CLONE_NEWNET | unix.CLONE_NEWUTS)
	if err != nil {
		return far, func() error { return nil }, err
	}
	end = func() error {
		thread.end()
		if err := link.Delete(nearDevice); !errors.Is(err, unix.ENODEV) {
			return err
		}
		return nil
	}
	if err := connect(thread); err != nil {
		return far, end, err
	}
	return site{address: Far, device: farDevice, do: thread.do}, end, nil
}

func connect(thread *thread) error {
	err := thread.do(func() error {
		return errors.Join(os.NewSyscallError("sethostname", unix.Sethostname([]byte("far"))), link.Up("lo"))
	})
	if err != nil {
		return err
	}
	namespace, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", thread.id))
	if err != nil {
		return err
	}
	defer func() { _ = namespace.Close() }()
	if err := link.Pair(nearDevice, farDevice, namespace); err != nil {
		return err
	}
	if err := link.SetAddress(nearDevice, near); err != nil {
		return err
	}
	return thread.do(func() error { return link.SetAddress(farDevice, Far) })
}

// A thread calls functions one after another, in namespaces of its own.
type thread struct {
	id    int
	tasks chan func()
	ended chan struct{}
}

func newThread(namespaces int) (*thread, error) {
	t := &thread{tasks: make(chan func()), ended: make(chan struct{})}
	ready := make(chan error)
	go func() {
		defer close(t.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		t.id = unix.Gettid()
		ready <- os.NewSyscallError("unshare", unix.Unshare(namespaces))
		for task := range t.tasks {
			task()
		}
	}()
	err := <-ready
	if err != nil {
		t.end()
	}
	return t, err
}

func (t *thread) do(f func() error) (err error) {
	done := make(chan struct{})
	t.tasks <- func() {
		defer close(done)
		err = f()
	}
	<-done
	return err
}

func (t *thread) end() {
	close(t.tasks)
	<-t.ended
}
