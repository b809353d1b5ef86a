package nfsserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volumekit/volumekit/internal/kerneltest/link"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// A Server is an NFS server. It is for one goroutine at a time.
type Server struct {
	Place // its first
	site  site

	files    files
	caches   caches
	tracking *tracking // not nil while it runs
	daemons  *daemons  // of v3, while it runs
	tally    *tally
}

// Prefix is the prefix of the names of tests that need a server.
const Prefix = "TestNFS"

func requireServer(t testing.TB) {
	t.Helper()
	if !strings.HasPrefix(t.Name(), Prefix) {
		t.Fatalf("%s needs an NFS server, so its name has to begin with %s", t.Name(), Prefix)
	}
	if err := available(); err != nil {
		mounttest.SkipWithout(t, "nfs", err)
	}
}

// Start starts a server for directories: absolute paths in a file system that can be
// exported, such as that of t.TempDir() in a guest. Clients mount them at the same paths,
// and write as root. The server ends with the test: unmount its exports before, in a cleanup
// that is registered after Start.
//
// Without a server the test is skipped for want of "nfs", see [mounttest.SkipWithout].
func Start(t testing.TB, dirs ...string) *Server {
	t.Helper()
	return Serve(t, plain(dirs)...)
}

// Serve is [Start] for exports with restrictions.
func Serve(t testing.TB, exports ...Export) *Server {
	t.Helper()
	requireServer(t)
	return serve(t, newTally(t), here, exports)
}

// StartV3 is [Start] for a server that also speaks NFSv3, with the daemons that this
// requires: mountd, and rpcbind as far as the kernel registers with it. Network locks are
// not supported.
func StartV3(t testing.TB, dirs ...string) *Server {
	t.Helper()
	requireServer(t)
	at := here
	at.v3 = true
	return serve(t, newTally(t), at, plain(dirs))
}

func serve(t testing.TB, tally *tally, at site, exports []Export) *Server {
	t.Helper()
	s, err := newServer(at, exports)
	if err != nil {
		t.Fatal(err)
	}
	s.tally = tally
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("end the NFS server: %v", err)
		}
	})
	tally.watch(t)
	return s
}

// New is [Start] for programs: it returns errors, and the server ends with [Server.Close].
func New(dirs ...string) (*Server, error) { return newServer(here, plain(dirs)) }

func plain(dirs []string) (exports []Export) {
	for _, dir := range dirs {
		exports = append(exports, Export{Dir: dir})
	}
	return exports
}

func newServer(at site, exports []Export) (*Server, error) {
	if err := available(); err != nil {
		return nil, fmt.Errorf("no NFS server here: %w", err)
	}
	s := &Server{Place: Place{Address: at.address, Port: 2049}, site: at, tally: new(tally)}
	err := at.do(func() (err error) {
		s.files, err = mountFiles(exports)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("NFS server: %w", err), s.Close())
	}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Start starts a stopped server. The server has lost its clients' open files: they reopen
// them. It is idempotent.
func (s *Server) Start() error {
	if s.tracking != nil {
		return nil
	}
	if err := s.site.do(s.start); err != nil {
		return errors.Join(fmt.Errorf("start the NFS server: %w", err), s.stop())
	}
	return nil
}

func (s *Server) start() (err error) {
	s.tracking = track(s.files.pipes())
	versions := "-2 -3 +4 +4.1 +4.2"
	if s.site.v3 {
		versions = "-2 +3 +4 +4.1 +4.2"
		if s.daemons, s.mountPort, err = startDaemons(s.Address, s.Port, &s.files); err != nil {
			return err
		}
	}
	for _, setting := range []struct{ file, text string }{
		{"versions", versions},
		// The minimum time for a client to be silent, and for the server to wait for
		// clients after its start.
		{"nfsv4leasetime", "10"},
		{"nfsv4gracetime", "10"},
	} {
		if err := s.set(setting.file, setting.text); err != nil {
			return err
		}
	}
	if s.caches, err = fillCaches(s.files.inTree()); err != nil {
		return err
	}
	if err := s.set("portlist", fmt.Sprintf("tcp %d", s.Port)); err != nil {
		return err
	}
	return s.set("threads", "4")
}

// Stop stops the server: connections end, and new ones are refused. A client that mounted
// "hard", which is the default, waits until the server is back. It is idempotent.
func (s *Server) Stop() error {
	if s.tracking != nil {
		s.tally.dead.Add(1)
	}
	return s.stop()
}

func (s *Server) stop() (err error) {
	if s.tracking == nil {
		return nil
	}
	err = s.set("threads", "0")
	s.tracking.end()
	err = errors.Join(err, s.caches.end(), s.daemons.end())
	s.tracking, s.caches, s.daemons = nil, nil, nil
	if err != nil {
		return fmt.Errorf("stop the NFS server: %w", err)
	}
	return nil
}

// LinkDown sets the server's network device down, the loopback device unless the server is
// far: clients wait without an answer.
func (s *Server) LinkDown() error {
	s.tally.dead.Add(1)
	return s.site.do(func() error { return link.Down(s.site.device) })
}

// LinkUp reverts LinkDown. A waiting client continues with its next attempt, which it makes
// at growing intervals.
func (s *Server) LinkUp() error {
	return s.site.do(func() error { return link.Up(s.site.device) })
}

// Close ends the server for good. Unmount its exports before.
func (s *Server) Close() error {
	return errors.Join(s.LinkUp(), s.stop(), s.files.unmount())
}

func (s *Server) set(file, text string) error {
	return writeFile(filepath.Join(s.files.nfsd(), file), text+"\n")
}

// available returns the reason why there is no server.
func available() error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	if !inGuest() {
		return errors.New("not in a guest: see make test-nfs")
	}
	return requireFileSystems("nfsd", "rpc_pipefs", "nfs4")
}
