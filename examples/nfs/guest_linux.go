package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/kerneltest/guest"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/mount"
)

// guestArg is how the demo's guest calls the program.
const guestArg = "in-the-guest"

// inGuest does what this program is for in the demo's kernel: it is the first
// program there, and then the one that shows something.
func inGuest(args []string) (status int, ok bool) {
	if _, err := os.Stat("/" + guest.TaskFile); err == nil && os.Getpid() == 1 {
		guest.Main()
	}
	if len(args) != 1 || args[0] != guestArg {
		return 0, false
	}
	c := &console{stdout: os.Stdout, stderr: os.Stderr}
	if err := play(context.Background(), c); err != nil {
		c.fail(err)
	}
	return c.status(), true
}

// exported is the directory that the demo's server exports.
const exported = "/export"

// A stage is what the demo is played on: a node, and an NFS server in the same
// kernel.
type stage struct {
	*node
	server *nfsserver.Server
	cast
}

// play is the demo. It leaves the server dead, and the kernel has to end so.
func play(ctx context.Context, c *console) error {
	const (
		patience = 2 * time.Minute // with what works
		grace    = time.Second     // for a server that may be dead
	)
	mounter := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: grace}})
	server, err := serve(ctx, mounter)
	if err != nil {
		return err
	}
	n, err := newNode(c, mounter, patience)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	c.printf("%s, started as an ordinary program. Its own NFS server exports %s.\n", release(), exported)
	s := &stage{node: n, server: server}
	for _, scene := range []func(context.Context) error{s.share, s.readOnly, s.die, s.comeBack, s.dieForGood} {
		if err := scene(ctx); err != nil {
			return errors.Join(err, server.LinkUp(), n.tidyUp(ctx), server.Close())
		}
	}
	return nil
}

// serve exports a file system in memory.
func serve(ctx context.Context, mounter mount.Interface) (*nfsserver.Server, error) {
	if err := os.MkdirAll(exported, 0o755); err != nil {
		return nil, err
	}
	err := mounter.Mount(ctx, mount.Request{Source: "tmpfs", Target: exported, FSType: "tmpfs"})
	if err != nil {
		return nil, err
	}
	return nfsserver.New(exported)
}

func release() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "Linux"
	}
	return "Linux " + strings.TrimSpace(string(text))
}
