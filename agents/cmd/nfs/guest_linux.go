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

// guestArg is the argument with which the demo's guest runs the program.
const guestArg = "in-the-guest"

// inGuest runs the program in the demo's kernel: as the first process, and as the process
// that plays the demo.
func inGuest(args []string) (status int, ok bool) {
	if _, err := os.Stat("/" + guest.TaskFile); err == nil && os.Getpid() == 1 {
		guest.Main()
	}
	if len(args) != 1 || args[0] != guestArg {
		return 0, false
	}
	c := &console{stdout: os.Stdout, stderr: os.Stderr}
	if err := runScenes(context.Background(), c); err != nil {
		c.fail(err)
	}
	return c.status(), true
}

// Directories that the servers export: the dying server's and its neighbour's.
const (
	exported  = "/export"
	neighbour = "/neighbour"
)

// A stage is the demo's environment: a node, and two NFS servers in the same kernel, one of
// them at the other end of a cable.
type stage struct {
	*node
	server, other *nfsserver.Server
	demoPods
}

// runScenes runs the demo. It leaves the server dead, to show that the kernel can shut down.
func runScenes(ctx context.Context, c *console) error {
	const (
		patience = 2 * time.Minute // for calls that succeed
		grace    = time.Second     // for a server that may be dead
	)
	mounter := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: grace}})
	n, err := newNode(ctx, c, mounter, patience)
	if err != nil {
		return err
	}
	s := &stage{node: n}
	if err := s.serve(ctx); err != nil {
		return err
	}
	c.printf("%s, started as an ordinary program, with NFS servers of its own: %s, and %s.\n",
		release(), s.server.Source(exported), s.other.Source(neighbour))
	for _, scene := range []func(context.Context) error{s.share, s.readOnly, s.die, s.restartServer, s.killServer} {
		if err := scene(ctx); err != nil {
			return errors.Join(err, s.server.LinkUp(), n.tidyUp(ctx))
		}
	}
	return nil
}

// serve starts the servers. They end with the kernel.
func (s *stage) serve(ctx context.Context) (err error) {
	for _, dir := range []string{exported, neighbour} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		inMemory := mount.Request{Source: "tmpfs", Target: dir, FSType: "tmpfs"}
		if err := s.mounter.Mount(ctx, inMemory); err != nil {
			return err
		}
	}
	if s.other, err = nfsserver.New(neighbour); err == nil {
		s.server, _, err = nfsserver.NewFar(exported)
	}
	return err
}

func release() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "Linux"
	}
	return "Linux " + strings.TrimSpace(string(text))
}
