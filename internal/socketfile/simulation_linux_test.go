package socketfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
)

// TestSimulation removes sockets at any time.
//
// Steps: a process starts, also in place of another one, or ends; others remove the socket, or its directory, or move
// them away, and make the directory again; a file takes the place of the socket, and goes.
//
// Forbidden states: a file of another process is changed; a socket of a process that has ended stays. At the end a
// process that lives answers at the socket, and no hidden socket is left.
//
// The time of the kernel is not part of a seed: a failure may take several runs (-count) to appear again.
func TestSimulation(t *testing.T) {
	testbed.Simulation{Short: 2, Seeds: 20, Run: func(t *testing.T, seed uint64) (trace, failures []string) {
		s := &simulation{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), dir: filepath.Join(testbed.Dir(t), "sockets")}
		s.path = filepath.Join(s.dir, "s")
		require.NoError(t, os.Mkdir(s.dir, 0o755))
		for range 20 {
			s.step()
		}
		s.settle()
		return s.trace, s.failures
	}}.Test(t)
}

type simulation struct {
	*testing.T
	*rand.Rand
	dir, path       string
	number          int
	running         []process
	trace, failures []string
}

// A process answers with its name.
type process struct {
	name string
	*Listener
}

func (s *simulation) log(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

func (s *simulation) fail(format string, args ...any) {
	s.log("VIOLATION: "+format, args...)
	s.failures = append(s.failures, s.trace[len(s.trace)-1])
}

// step takes a step at random. Others than the processes do not see each other's failures.
func (s *simulation) step() {
	s.number++
	switch s.IntN(10) {
	case 0, 1:
		s.start()
	case 2:
		s.end()
	case 3:
		s.log("remove the socket: %v", os.Remove(s.path))
	case 4:
		s.log("move the socket: %v", os.Rename(s.path, fmt.Sprint(s.path, s.number)))
	case 5:
		s.log("remove the directory: %v", os.RemoveAll(s.dir))
	case 6:
		s.log("move the directory: %v", os.Rename(s.dir, fmt.Sprint(s.dir, s.number)))
	case 7:
		s.putFile()
	default:
		s.log("make the directory: %v", os.Mkdir(s.dir, 0o755))
	}
	time.Sleep(time.Duration(s.IntN(4)*s.IntN(50)) * time.Millisecond)
}

func (s *simulation) start() {
	name := fmt.Sprint("process-", s.number)
	l, err := Listen(s.path, true)
	s.log("start %s: %v", name, err)
	if err != nil {
		return
	}
	s.running = append(s.running, process{name, l})
	go answerWith(l, name)
	s.Cleanup(func() { _ = l.Close() })
}

func (s *simulation) end() {
	if len(s.running) == 0 {
		return
	}
	i := s.IntN(len(s.running))
	ended := s.running[i]
	s.running = slices.Delete(s.running, i, i+1)
	s.log("end %s: %v", ended.name, ended.Close())
	if answer(s.path) == ended.name {
		s.fail("%s has ended and answers", ended.name)
	}
}

// putFile puts a file in the place of the socket, for a time.
func (s *simulation) putFile() {
	err := os.WriteFile(s.path+"-new", []byte("other"), 0o644)
	if err == nil {
		err = os.Rename(s.path+"-new", s.path)
	}
	s.log("put a file: %v", err)
	if err != nil {
		return
	}
	time.Sleep(time.Duration(s.IntN(3)) * 2 * restorePause)
	if text, err := os.ReadFile(s.path); err != nil || string(text) != "other" {
		s.fail("the file of another process is %q: %v", text, err)
	}
	s.log("remove the file: %v", os.Remove(s.path))
}

// settle makes the directory, and waits until a process answers, or until no socket is there.
func (s *simulation) settle() {
	if err := os.Mkdir(s.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		s.fail("make the directory: %v", err)
	}
	s.log("settle, with %d processes", len(s.running))
	if !s.eventually(s.isServed) {
		s.fail("%q answers, of %d processes", answer(s.path), len(s.running))
	}
	for len(s.running) > 0 {
		s.end()
	}
	time.Sleep(2 * restorePause)
	if _, err := os.Lstat(s.path); !errors.Is(err, fs.ErrNotExist) {
		s.fail("a socket is left: %v", err)
	}
	entries, err := os.ReadDir(s.dir)
	require.NoError(s, err)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			s.fail("the hidden socket %s is left", entry.Name())
		}
	}
}

func (s *simulation) isServed() bool {
	name := answer(s.path)
	return len(s.running) == 0 && name == "" || slices.ContainsFunc(s.running, func(p process) bool { return p.name == name })
}

// eventually reports whether a condition holds within a minute.
func (s *simulation) eventually(condition func() bool) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if condition() {
			return true
		}
	}
	return false
}
