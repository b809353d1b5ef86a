package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// A size is a terminal's size, in characters.
type size struct{ width, height int }

// A model is a terminal, as far as the agent uses one.
type model struct {
	*testing.T
	keyboard *os.File      // the typed keys are written to it
	program  *os.File      // the program's end of the terminal
	ended    chan struct{} // closed when no process has the terminal open

	mu       sync.Mutex
	size     size
	cells    [][]byte
	row, col int
	isHidden bool // the cursor
	shown    string
	scrolled []string
	wrapped  int
}

func newModel(t *testing.T, s size) *model {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		mounttest.SkipWithout(t, "pty", err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	program, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), unix.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	m := &model{T: t, keyboard: keyboard, program: program, ended: make(chan struct{})}
	m.resize(s)
	return m
}

// resize changes the size, and clears the screen.
func (m *model) resize(s size) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size, m.cells, m.row, m.col = s, nil, 0, 0
	for range s.height {
		m.cells = append(m.cells, m.blank())
	}
	require.NoError(m, unix.IoctlSetWinsize(int(m.keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(s.width), Row: uint16(s.height)}))
}

// discardRecords discards the records of lines that were drawn for another size.
func (m *model) discardRecords() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scrolled, m.wrapped = nil, 0
}

func (m *model) blank() []byte { return bytes.Repeat([]byte{' '}, m.size.width) }

// start starts the program, and shows its output until no process has the terminal open.
func (m *model) start(u user, args ...string) *process {
	p := u.startWith(func(c *exec.Cmd) {
		c.Stdin, c.Stdout, c.Env = m.program, m.program, append(c.Env, "TERM=xterm")
		c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = true, true
	}, args...)
	require.NoError(m, m.program.Close())
	go func() {
		defer close(m.ended)
		text := ""
		buffer := make([]byte, 4096)
		for {
			n, err := m.keyboard.Read(buffer)
			text = m.show(text + string(buffer[:n]))
			if err != nil {
				return
			}
		}
	}()
	return p
}

var sequence = regexp.MustCompile(`^\x1b\[(\??[0-9;]*[A-Za-z])`)

// show draws the text, and returns an unfinished control sequence at its end.
func (m *model) show(text string) (rest string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const longest = 8
	for text != "" {
		if found := sequence.FindStringSubmatch(text); found != nil {
			m.control(found[1])
			text = text[len(found[0]):]
			continue
		}
		if text[0] == '\x1b' && len(text) < longest {
			return text
		}
		m.put(text[0])
		text = text[1:]
	}
	return ""
}

func (m *model) put(c byte) {
	switch c {
	case '\r':
		m.col = 0
		return
	case '\n':
		m.down()
		return
	}
	if m.col == m.size.width {
		m.wrapped++
		m.col = 0
		m.down()
	}
	m.cells[m.row][m.col] = c
	m.col++
}

func (m *model) down() {
	if m.row++; m.row == m.size.height {
		m.row--
		m.scrolled = append(m.scrolled, strings.TrimRight(string(m.cells[0]), " "))
		m.cells = append(m.cells[1:], m.blank())
	}
}

func (m *model) control(sequence string) {
	switch sequence {
	case "H":
		m.row, m.col = 0, 0
	case "K":
		copy(m.cells[m.row][min(m.col, m.size.width-1):], m.blank())
	case "J":
		m.control("K")
		for i := m.row + 1; i < m.size.height; i++ {
			m.cells[i] = m.blank()
		}
	case "?25l":
		m.isHidden = true
	case "?25h":
		m.isHidden, m.shown = false, m.all()
	default:
		m.Errorf("the terminal knows no %q", sequence)
	}
}

// text returns the terminal's content at the last return of the cursor: a complete picture.
func (m *model) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shown
}

func (m *model) all() string {
	var lines []string
	for _, line := range m.cells {
		lines = append(lines, strings.TrimRight(string(line), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

func (m *model) eventually(is func(text string) bool) {
	m.Helper()
	require.Eventually(m, func() bool { return is(m.text()) }, time.Minute, 20*time.Millisecond, "%v", fmt.Stringer(stringer(m.text)))
}

type stringer func() string

func (s stringer) String() string { return s() }

// requireNoWrap fails if a line has wrapped, or if a line that is not blank has scrolled out.
func (m *model) requireNoWrap() {
	m.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Empty(m, strings.Join(m.scrolled, ""))
	require.Zero(m, m.wrapped)
}

// TestTerminal checks that a table larger than the terminal counts the omitted rows, stays
// in its place, follows the terminal's size, and leaves the terminal as it was.
func TestTerminal(t *testing.T) {
	uid := os.Geteuid()
	if uid == 0 {
		uid = 65534
	}
	u := newUser(t, uid)
	for i := range 3 {
		u.put(fmt.Sprintf("pod-%d.yaml", i), idlePod(fmt.Sprint("pod-", i), 10))
	}
	m := newModel(t, size{70, 14})
	p := m.start(u, u.flags()...)
	m.eventually(func(text string) bool {
		if isEnded(p) {
			u.wait(p) // there may be no namespace
		}
		return strings.HasPrefix(text, "All is as desired: 30 volumes of 3 pods are up.\nPOD ")
	})
	require.Contains(t, m.text(), "\n... and ")
	m.requireNoWrap()

	u.put("wrong.yaml", "{[")
	m.eventually(func(text string) bool { return strings.Contains(text, "manifests: wrong.yaml, document 1: ") })
	m.requireNoWrap()

	for _, test := range []struct {
		size
		shows string
	}{
		{size{40, 10}, `^All is as desired: 30 .*\nPOD +VOLUME +STATE\n(default/pod-\d +v\d +mounted\n){2}\.\.\. and 28 more\n\n(..:..:.. .*\n?){3}$`},
		{size{90, 60}, `^Keeping .*\nAll .*\nPOD +VOLUME +PLUGIN +STATE\n(default/pod-\d +v\d +kubernetes.io/empty-dir +mounted\n){30}\n(..:..:.. .*\n?){8}$`},
	} {
		m.resize(test.size)
		m.eventually(regexp.MustCompile(test.shows).MatchString)
		m.discardRecords()
		name := fmt.Sprintf("wrong-%d.yaml", test.width)
		u.put(name, "{[")
		m.eventually(func(text string) bool { return strings.Contains(text, name) })
		require.Regexp(t, test.shows, m.text())
		m.requireNoWrap()
	}

	require.NoError(t, os.Remove(u.dir+"/manifests/pod-2.yaml"))
	m.eventually(regexp.MustCompile(`^Keeping .*\nAll .*\nPOD .*\n(default/.* mounted\n){20}\n(..:..:.. .*\n?){8}$`).MatchString)

	_, err := m.keyboard.WriteString("\x03")
	require.NoError(t, err)
	require.Zero(t, u.wait(p), p.stderr.String())
	<-m.ended
	m.requireNoWrap()
	require.False(t, m.isHidden)
	require.Zero(t, m.col)
	require.Contains(t, m.text(), "All is as desired: 20 volumes of 2 pods are up.\n")
}
