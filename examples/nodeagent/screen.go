package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/manager/manifests"
	"k8s.io/apimachinery/pkg/types"
)

// A screen is a terminal with a table, or something else that gets lines.
type screen struct {
	out        io.Writer
	isTerminal bool
	lines      chan string // to be shown
	recent     []string
	said       string // about the whole, last
}

func newScreen(out io.Writer) *screen {
	f, ok := out.(*os.File)
	if ok {
		info, err := f.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return &screen{out: out, isTerminal: ok, lines: make(chan string, 4096)}
}

func (s *screen) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// event and problem do not wait: a line more or less is no reason to hold up volumes.
func (s *screen) event(e manager.Event) {
	pod := string(e.PodUID)
	if e.Pod != nil {
		pod = e.Pod.Namespace + "/" + e.Pod.Name
	}
	s.say(fmt.Sprintf("%s %s: %s", e.Reason, pod, e.Message))
}

func (s *screen) problem(p manifests.Problem) { s.say("manifests: " + p.Error()) }

func (s *screen) say(line string) {
	select {
	case s.lines <- time.Now().Format(time.TimeOnly) + " " + oneLine(line):
	default:
	}
}

func (s *screen) show(line string) {
	const most = 8
	if !s.isTerminal {
		s.printf("%s\n", line)
		return
	}
	s.recent = append(s.recent, line)
	s.recent = s.recent[max(0, len(s.recent)-most):]
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
	names, pods := podNames(ctx, source)
	if s.isTerminal {
		const clear = "\x1b[H\x1b[2J"
		s.printf("%s%s\n%s\n", clear, table(state, names), strings.Join(s.recent, "\n"))
		return
	}
	said := ""
	if isSettled(state) {
		said = fmt.Sprintf("All is as desired: %d volumes of %d pods are up.", countUp(state), pods)
	}
	if said != "" && said != s.said {
		s.printf("%s\n", said)
	}
	s.said = said
}

func countUp(state manager.State) (n int) {
	for _, v := range state.Volumes {
		n += len(v.Pods)
	}
	return n
}

func podNames(ctx context.Context, source *manifests.Source) (names map[types.UID]string, n int) {
	names = map[types.UID]string{}
	pods, _ := source.Pods(ctx) // without it the UIDs are shown
	for _, pod := range pods {
		names[pod.UID] = pod.Namespace + "/" + pod.Name
	}
	return names, len(pods)
}

func table(state manager.State, names map[types.UID]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "POD\tVOLUME\tPLUGIN\tSTATE\t")
	row := func(pod types.UID, name, plugin, says string, err error) {
		if err != nil {
			says += ": " + err.Error()
		}
		if names[pod] == "" {
			names[pod] = string(pod)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", oneLine(names[pod]), oneLine(name), plugin, oneLine(says))
	}
	for _, v := range state.Volumes {
		for _, pod := range v.Pods {
			row(pod.Pod, pod.Name, v.Plugin, pod.Phase(), pod.Err)
		}
	}
	for _, f := range state.Failed {
		row(f.Pod, f.Name, "", "cannot be planned", f.Err)
	}
	for _, left := range state.Leftovers {
		row(left.Pod, left.Path, left.Plugin, "left alone", left.Err)
	}
	_ = w.Flush() // into memory
	return b.String()
}

// oneLine makes a line of a text that may hold what anybody wrote.
func oneLine(text string) string {
	const limit = 400
	text = strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.Join(strings.Fields(text), " "))
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}
