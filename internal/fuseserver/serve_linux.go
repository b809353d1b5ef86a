package fuseserver

import (
	"math"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// descriptor is the one of /dev/fuse in the process of a file system.
const descriptor = 3

// A Handler returns the payload of the answer to a request, or an error. Serve calls it
// for one request at a time, and not for those that no file system decides.
type Handler func(Request) ([]byte, unix.Errno)

// Serve is the process of a file system that [Start] has started. It does not return.
func Serve(handle Handler) {
	s := &server{handle: handle}
	go s.serve()
	for command := make([]byte, 1); ; {
		if _, err := os.Stdin.Read(command); err != nil {
			os.Exit(0)
		}
		command[0] = s.obey(command[0])
		_, _ = os.Stdout.Write(command)
	}
}

type server struct {
	handle Handler
	mu     sync.Mutex
	hung   chan struct{} // closed at the release; nil: it serves
	held   byte          // requests that wait for the release
}

// The commands on standard input; each is answered by a byte.
const (
	commandHang    = 'h'
	commandRelease = 'r'
	commandHeld    = 'n' // answered by the number
)

func (s *server) obey(command byte) (reply byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case command == commandHang && s.hung == nil:
		s.hung = make(chan struct{})
	case command == commandRelease && s.hung != nil:
		close(s.hung)
		s.hung, s.held = nil, 0
	case command == commandHeld:
		return s.held
	}
	return command
}

// serve reads requests until the file system is unmounted.
func (s *server) serve() {
	for {
		buf := make([]byte, 1<<17)
		n, err := unix.Read(descriptor, buf)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT {
			continue
		}
		if err != nil || n < headerSize {
			return
		}
		r := Request(buf[:n])
		if hung := s.heldBy(r.Opcode()); hung != nil {
			go func() {
				<-hung
				s.answer(r)
			}()
			continue
		}
		s.answer(r)
	}
}

// heldBy returns the channel that a request has to wait for, nil if there is none.
func (s *server) heldBy(opcode uint32) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch opcode {
	case Init, Forget, BatchForget, Interrupt:
		return nil
	}
	if s.hung != nil && s.held < math.MaxUint8 {
		s.held++
	}
	return s.hung
}

func (s *server) answer(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Opcode() {
	case Forget, BatchForget, Interrupt:
	case Init:
		r.answer(0, initAnswer())
	default:
		payload, err := s.handle(r)
		r.answer(err, payload)
	}
}
