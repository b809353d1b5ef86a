package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/agents/internal/cli"
)

// demoPods are the pods of the demo.
type demoPods struct{ writer, reader, auditor, neighbour *podVolume }

const (
	greeting = "greeting.txt"
	news     = "news.txt"

	tearDownLimit = 5 * time.Second
)

// mountForPod mounts an export for a pod: without a server in o, that of the dying server.
func (s *stage) mountForPod(ctx context.Context, pod string, o options) (*podVolume, error) {
	if o.server == "" {
		o.server, o.path = s.server.Address, exported
	}
	v, err := s.plan(pod, o.spec())
	if err == nil {
		err = s.within(ctx, v.setUp)
	}
	return v, err
}

// share: one pod reads another pod's file.
func (s *stage) share(ctx context.Context) (err error) {
	s.printf("\nTwo pods mount the same export, the second with options.\n")
	if s.writer, err = s.mountForPod(ctx, "writer", options{}); err != nil {
		return err
	}
	if s.reader, err = s.mountForPod(ctx, "reader", options{mountOptions: cli.Options{"vers=4.2", "noatime"}}); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		s.writer.printState, s.reader.showBriefly, s.writer.writeCall(greeting), s.served(greeting), s.reader.readCall(greeting),
	} {
		if err := s.within(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// served requires a file in the server's directory.
func (s *stage) served(name string) func(context.Context) error {
	return func(context.Context) error {
		text, err := os.ReadFile(filepath.Join(exported, name))
		if err == nil {
			s.printf("server: has %q in %s.\n", text, name)
		}
		return err
	}
}

// readOnly: a pod that must not write cannot.
func (s *stage) readOnly(ctx context.Context) (err error) {
	s.printf("\nA third pod mounts it read-only, and a fourth has a volume of the other server.\n")
	if s.auditor, err = s.mountForPod(ctx, "auditor", options{readOnly: true}); err != nil {
		return err
	}
	s.neighbour, err = s.mountForPod(ctx, "neighbour", options{server: s.other.Address, path: neighbour})
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		s.auditor.showBriefly, s.auditor.readCall(greeting), s.auditor.isRefused, s.neighbour.showBriefly,
	} {
		if err := s.within(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// die: calls that need the server wait as long as their contexts, other calls do not, and a
// volume can be taken down.
func (s *stage) die(ctx context.Context) error {
	s.printf("\nThe server dies: its cable is cut, and nobody is told.\n")
	if err := s.server.LinkDown(); err != nil {
		return err
	}
	if err := s.writer.startStuckReader(ctx); err != nil {
		return err
	}
	late, err := s.plan("latecomer", (&options{server: s.server.Address, path: exported}).spec())
	if err != nil {
		return err
	}
	if err := s.requireTimeout(ctx, "latecomer: SetUp", late.setUp); err != nil {
		return err
	}
	err = s.requireTimeout(ctx, "writer: GetMetrics", func(ctx context.Context) error {
		_, err := s.writer.GetMetrics(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{s.neighbour.writeCall(greeting), s.neighbour.readCall(greeting)} {
		if err := s.within(ctx, step); err != nil {
			return err
		}
	}
	return s.writer.tearDown(ctx, tearDownLimit)
}

// requireTimeout requires a call that needs the server to return when its context ends.
func (s *stage) requireTimeout(ctx context.Context, name string, do func(context.Context) error) error {
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begin := time.Now()
	err := do(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s does not need the server: %w", name, err)
	}
	s.printf("%s with %v: after %v: %s.\n", name, limit, since(begin), cli.OneLine(err.Error()))
	return nil
}

// restartServer shows that a volume that stayed mounted works again.
func (s *stage) restartServer(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(exported, news), []byte("news of the day"), 0o644); err != nil {
		return err
	}
	s.printf("\nThe pod reader asks for %s, and waits.\n", news)
	begin := time.Now()
	read := make(chan error, 1)
	go func() { read <- s.within(ctx, s.reader.readCall(news)) }()
	select {
	case err := <-read:
		return fmt.Errorf("reader does not need the server: %w", err)
	case <-time.After(time.Second):
	}
	s.printf("The server comes back: the cable is whole again.\n")
	if err := s.server.LinkUp(); err != nil {
		return err
	}
	if err := <-read; err != nil {
		return err
	}
	s.printf("It has waited for %v.\n", since(begin))
	return nil
}

// killServer shows that all volumes can be taken down, and that the program can end.
func (s *stage) killServer(ctx context.Context) error {
	s.printf("\nThe server dies again, for good.\n")
	if err := s.server.LinkDown(); err != nil {
		return err
	}
	if err := s.reader.startStuckReader(ctx); err != nil {
		return err
	}
	for _, v := range []*podVolume{s.reader, s.auditor} {
		if err := v.tearDown(ctx, tearDownLimit); err != nil {
			return err
		}
	}
	return s.tidyUp(ctx)
}

func (v *podVolume) file(name string) string { return filepath.Join(v.GetPath(), name) }

func (v *podVolume) writeCall(name string) func(context.Context) error {
	text := "hello from " + v.pod
	return func(ctx context.Context) error {
		_, err := queryInTime(ctx, func() (any, error) {
			return nil, os.WriteFile(v.file(name), []byte(text), 0o644)
		})
		if err == nil {
			v.node.printf("%s: wrote %q to %s.\n", v.pod, text, name)
		}
		return err
	}
}

func (v *podVolume) readCall(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		text, err := queryInTime(ctx, func() ([]byte, error) { return os.ReadFile(v.file(name)) })
		if err == nil {
			v.node.printf("%s: read %q from %s.\n", v.pod, text, name)
		}
		return err
	}
}

// isRefused requires a volume to be read-only.
func (v *podVolume) isRefused(ctx context.Context) error {
	_, err := queryInTime(ctx, func() (any, error) {
		return nil, os.WriteFile(v.file(greeting), nil, 0o644)
	})
	if !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%s: not refused as read-only: %w", v.pod, err)
	}
	v.node.printf("%s: a write is refused: %v.\n", v.pod, syscall.EROFS)
	return nil
}

// startStuckReader makes a process wait for a file of the dead server, as a container would.
func (v *podVolume) startStuckReader(ctx context.Context) error {
	const soon = time.Second
	err := within(ctx, soon, func(ctx context.Context) error {
		_, err := queryInTime(ctx, func() (fs.FileInfo, error) { return os.Stat(v.file("anything.txt")) })
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: the server is not dead: %w", v.pod, err)
	}
	v.node.printf("%s: somebody looks for a file, and hangs.\n", v.pod)
	return nil
}
