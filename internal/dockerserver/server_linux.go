package dockerserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/testflag"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// Image is the name of the only image of a daemon: busybox, as /busybox, which sleeps.
const Image = kubeserver.Image

// readyTime is the time for a start.
const readyTime = time.Minute

// A Server is a daemon. Its methods must not be called concurrently, but those that run the client.
type Server struct {
	t          mounttest.T
	dir        string
	programs   Programs
	containerd *kubeserver.Process
	dockerd    *kubeserver.Process
}

// Isolate runs the test in namespaces of its own, as kubeserver.Isolate does. It skips the test unless VOLUMEKIT_REQUIRE
// names docker: then the cache must have the programs, see [Fetch].
func Isolate(t mounttest.T) (inside bool) {
	t.Helper()
	if !testflag.Required("docker") {
		t.Skipf("a suite of its own, which needs a Docker daemon: VOLUMEKIT_REQUIRE=docker")
	}
	return kubeserver.Isolate(t)
}

// New starts a containerd, and returns a daemon that has not started. The test must be in the namespaces of [Isolate].
func New(t mounttest.T) *Server {
	t.Helper()
	programs, err := Find()
	if err == nil && os.Getpid() != 1 {
		err = errors.New("requires the namespaces of Isolate")
	}
	if err != nil {
		t.Fatalf("find the programs of Docker: %v", err)
	}
	s := &Server{t: t, dir: "/run/dockerserver", programs: programs} // it ends with the namespace
	if err := s.prepare(); err != nil {
		t.Fatalf("prepare Docker: %v", err)
	}
	t.Cleanup(func() { // also after a step that fails
		s.dockerd.Kill()
		s.containerd.Kill()
		if err := kubeserver.EndNamespaces(s.dir); err != nil {
			t.Error("end Docker:", err)
		}
	})
	return s
}

func (s *Server) prepare() (err error) {
	path := strings.Join([]string{filepath.Dir(s.programs.Containerd), filepath.Dir(s.programs.Runc), os.Getenv("PATH")}, ":")
	for name, value := range map[string]string{"PATH": path, "LD_LIBRARY_PATH": s.programs.Libraries, "DOCKER_HOST": "unix://" + s.dir + "/docker.sock"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if err := kubeserver.WriteImage(s.dir+"/image.tar", s.programs.Busybox); err != nil {
		return err
	}
	s.containerd, err = kubeserver.StartProcess(s.dir, s.programs.Containerd, "--root", s.dir+"/containerd", "--state", s.dir+"/containerd.state", "--address", s.dir+"/containerd.sock")
	return err
}

// Start starts the daemon, with more flags, and returns once it answers.
func (s *Server) Start(flags ...string) {
	s.t.Helper()
	_ = os.Remove(s.dir + "/pid") // of a daemon that was killed
	args := append([]string{
		"--containerd", s.dir + "/containerd.sock", "--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false",
		"--storage-driver=vfs", "--data-root", s.dir + "/data", "--exec-root", s.dir + "/exec", "-H", "unix://" + s.dir + "/docker.sock", "-p", s.dir + "/pid",
	}, flags...)
	var err error
	if s.dockerd, err = kubeserver.StartProcess(s.dir, s.programs.Dockerd, args...); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), readyTime)
	defer cancel()
	for {
		output, err := s.client(ctx, "version").CombinedOutput()
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("docker version: %v: %s\n%s", err, output, s.Messages())
		case <-s.dockerd.Ended:
			s.t.Fatalf("dockerd has ended: %s", s.Messages())
		case <-time.After(50 * time.Millisecond):
		}
	}
	if _, err := s.TryDocker("image", "inspect", Image); err != nil {
		s.Docker("load", "-q", "-i", s.dir+"/image.tar")
	}
}

// Stop ends the daemon as systemd does, by SIGTERM, and waits for its end.
func (s *Server) Stop() {
	s.dockerd.Terminate()
	s.dockerd = nil
}

// Kill kills the daemon, which cannot clean up.
func (s *Server) Kill() {
	s.dockerd.Kill()
	s.dockerd = nil
}

// TryDocker runs the client, and returns its output.
func (s *Server) TryDocker(args ...string) (string, error) {
	output, err := s.client(s.t.Context(), args...).CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil {
		err = fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, text)
	}
	return text, err
}

// Docker runs the client, which must succeed, and returns its output.
func (s *Server) Docker(args ...string) string {
	s.t.Helper()
	output, err := s.TryDocker(args...)
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.Messages())
	}
	return output
}

// Messages returns the last messages of the daemon, for failures.
func (s *Server) Messages() string {
	if s.dockerd == nil {
		return "no daemon"
	}
	return s.dockerd.LastMessages()
}

func (s *Server) client(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.programs.Docker, args...)
	cmd.WaitDelay = time.Second
	return cmd
}
