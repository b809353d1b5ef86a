package screen

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/util/progress"
	"k8s.io/apimachinery/pkg/types"
)

// A Screen is a terminal with a table, or another file with lines. Event and Say are safe for
// concurrent use; the other methods are for one goroutine.
type Screen struct {
	out      io.Writer
	terminal *os.File // nil: no terminal
	resized  chan os.Signal
	lines    chan string // waiting to be printed
	names    names
	title    []string // above the table
	recent   []string
	said     string // the last summary
	isDrawn  bool
}

// New returns a screen on an output, which may be a *cli.Output.
func New(out io.Writer) *Screen {
	s := &Screen{out: out, lines: make(chan string, 4096), resized: make(chan os.Signal, 1), names: names{of: map[types.UID]string{}}}
	if f := fileOf(out); f != nil && isTerminal(f) {
		s.terminal = f
		notifyResized(s.resized)
	}
	return s
}

// fileOf returns the file at the end of a chain of writers, or nil.
func fileOf(out io.Writer) *os.File {
	if o, ok := out.(*cli.Output); ok {
		out = o.Unwrap()
	}
	f, _ := out.(*os.File)
	return f
}

func (s *Screen) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// Begin prints the title.
func (s *Screen) Begin(title ...string) {
	s.title = title
	if s.terminal == nil {
		s.printf("%s\n", strings.Join(title, "\n"))
	}
}

// Event shows an event of the manager. It does not block: it drops an event rather than delay
// volumes.
func (s *Screen) Event(e manager.Event) {
	if e.Pod != nil {
		s.names.learn(e.Pod)
	}
	s.Say(fmt.Sprintf("%s %s: %s", e.Reason, s.names.name(e.PodUID), e.Message))
}

// Say shows a text in a line of its own, with the time. It does not block, as Event.
func (s *Screen) Say(text string) {
	select {
	case s.lines <- time.Now().Format(time.TimeOnly) + " " + cli.OneLine(text):
	default:
	}
}

// WithProgress returns a context whose long steps are shown, each in a few lines.
func (s *Screen) WithProgress(ctx context.Context) context.Context {
	return progress.With(ctx, progress.Sparse(func(r progress.Report) { s.Say(r.String()) }))
}

// show prints a line.
func (s *Screen) show(line string) {
	const most = 8
	if s.terminal == nil {
		s.printf("%s\n", line)
		return
	}
	s.recent = tail(append(s.recent, line), most)
}

// flush prints the waiting lines.
func (s *Screen) flush() {
	for {
		select {
		case line := <-s.lines:
			s.show(line)
		default:
			return
		}
	}
}

// paint replaces the terminal's content in one write. Earlier content scrolls away and is
// not lost. The cursor waits below the table, so a kill needs no cleanup.
func (s *Screen) paint(p picture) {
	const home, toEndOfLine, toEnd, hide, unhide = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[?25l", "\x1b[?25h"
	var b strings.Builder
	now := sizeOf(s.terminal)
	if !s.isDrawn {
		b.WriteString(strings.Repeat("\n", now.height))
	}
	b.WriteString(hide + home)
	for _, line := range p.lines(size{now.width, now.height - 1}) {
		b.WriteString(line + toEndOfLine + "\r\n")
	}
	b.WriteString(toEnd + unhide)
	s.printf("%s", b.String())
	s.isDrawn = true
}
