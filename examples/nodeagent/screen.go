package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/examples/internal/cli"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/manager/manifests"
	"k8s.io/apimachinery/pkg/types"
)

// A screen is a terminal with a table, or something else that gets lines.
type screen struct {
	out      io.Writer
	terminal *os.File // nil: it is none
	resized  chan os.Signal
	lines    chan string // to be shown
	names    names
	title    []string // above the table
	recent   []string
	said     string // about the whole, last
	isDrawn  bool
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out, lines: make(chan string, 4096), resized: make(chan os.Signal, 1), names: names{of: map[types.UID]string{}}}
	if f, ok := out.(*os.File); ok && isTerminal(f) {
		s.terminal = f
		notifyResized(s.resized)
	}
	return s
}

func (s *screen) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// begin says what all that follows is about.
func (s *screen) begin(title ...string) {
	s.title = title
	if s.terminal == nil {
		s.printf("%s\n", strings.Join(title, "\n"))
	}
}

// event and problem do not wait: a line more or less is no reason to hold up volumes.
func (s *screen) event(e manager.Event) {
	if e.Pod != nil {
		s.names.learn(e.Pod)
	}
	s.say(fmt.Sprintf("%s %s: %s", e.Reason, s.names.name(e.PodUID), e.Message))
}

func (s *screen) problem(p manifests.Problem) { s.say("manifests: " + p.Error()) }

func (s *screen) say(line string) {
	select {
	case s.lines <- time.Now().Format(time.TimeOnly) + " " + cli.OneLine(line):
	default:
	}
}

func (s *screen) show(line string) {
	const most = 8
	if s.terminal == nil {
		s.printf("%s\n", line)
		return
	}
	s.recent = tail(append(s.recent, line), most)
}

// flush shows what waits to be.
func (s *screen) flush() {
	for {
		select {
		case line := <-s.lines:
			s.show(line)
		default:
			return
		}
	}
}

// draw shows the state: all of it on a terminal, and elsewhere only that all is well.
func (s *screen) draw(ctx context.Context, state manager.State, source *manifests.Source) {
	said := ""
	if isSettled(state) {
		pods := podNames(ctx, source)
		s.names.forgetBut(pods)
		verb, up := "are", countUp(state)
		if up == 1 {
			verb = "is"
		}
		said = fmt.Sprintf("All is as desired: %s of %s %s up.", count(up, "volume"), count(len(pods), "pod"), verb)
	}
	if s.terminal != nil {
		s.paint(picture{head: append(slices.Clone(s.title), cmp.Or(said, "Not all is as desired yet.")), rows: table(state, &s.names), recent: s.recent})
	} else if said != "" && said != s.said {
		s.printf("%s\n", said)
	}
	s.said = said
}

// paint replaces what the terminal shows, in one write. What it showed at first scrolls
// away, and is not lost. The cursor waits below, and nothing is left to be put back,
// should we be killed.
func (s *screen) paint(p picture) {
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

func countUp(state manager.State) (n int) {
	for _, v := range state.Volumes {
		n += len(v.Pods)
	}
	return n
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// table returns a row for each volume of a pod.
func table(state manager.State, names *names) (rows []row) {
	add := func(pod types.UID, name, plugin, says string, err error) {
		isFine := err == nil && says == mounted
		if err != nil {
			says += ": " + err.Error()
		}
		rows = append(rows, row{[columns]string{cli.OneLine(names.name(pod)), cli.OneLine(name), plugin, cli.OneLine(says)}, isFine})
	}
	for _, v := range state.Volumes {
		for _, pod := range podsOf(v) {
			add(pod.Pod, pod.Name, v.Plugin, pod.Phase(), cause(v, pod))
		}
	}
	for _, f := range state.Failed {
		add(f.Pod, f.Name, "", "cannot be planned", f.Err)
	}
	for _, left := range state.Leftovers {
		add(left.Pod, left.Path, left.Plugin, "left alone", left.Err)
	}
	return rows
}
