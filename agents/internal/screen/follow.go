package screen

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/volumekit/volumekit/manager"
)

// pace is the delay of a picture after an event, and the period of pictures until the desired
// state is reached.
const pace = 100 * time.Millisecond

// Follow shows the volumes after each event. When the desired state is reached it calls settled
// and sleeps until the next event. It returns nil if settled returns true, and the cause of ctx
// when ctx ends.
func (s *Screen) Follow(ctx context.Context, volumes *manager.Manager, pods manager.PodSource, settled func() (end bool)) error {
	look := time.NewTimer(pace)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			s.drawLast(ctx, volumes, pods)
			return context.Cause(ctx)
		case line := <-s.lines:
			s.show(line)
			look.Reset(pace)
		case <-s.resized:
			s.draw(ctx, volumes.State(), pods)
		case <-look.C:
			state := volumes.State()
			s.draw(ctx, state, pods)
			if !IsSettled(state) {
				look.Reset(pace)
			} else if settled() {
				s.drawLast(ctx, volumes, pods)
				return nil
			}
		}
	}
}

func (s *Screen) drawLast(ctx context.Context, volumes *manager.Manager, pods manager.PodSource) {
	s.flush()
	s.draw(ctx, volumes.State(), pods)
}

// draw shows the state: the table on a terminal; elsewhere only that all is as desired, and the
// leftovers, when that changes.
func (s *Screen) draw(ctx context.Context, state manager.State, source manager.PodSource) {
	said := ""
	if IsSettled(state) {
		pods := PodNames(ctx, source)
		s.names.forgetBut(pods)
		verb, up := "are", countUp(state)
		if up == 1 {
			verb = "is"
		}
		said = fmt.Sprintf("All is as desired: %s of %s %s up.", Count(up, "volume"), Count(len(pods), "pod"), verb)
		if s.terminal == nil { // on a terminal the table has them
			said += leftoverLines(state)
		}
	}
	if s.terminal != nil {
		s.paint(picture{head: append(slices.Clone(s.title), cmp.Or(said, "Not all is as desired yet.")), rows: table(state, &s.names), recent: s.recent})
	} else if said != "" && said != s.said {
		s.printf("%s\n", said)
	}
	s.said = said
}

// leftoverLines returns a line for each leftover, each after a newline.
func leftoverLines(state manager.State) (text string) {
	for _, left := range state.Leftovers {
		text += "\nLeft alone: " + left.String()
	}
	return text
}

func countUp(state manager.State) (n int) {
	for _, v := range state.Volumes {
		n += len(v.Pods)
	}
	return n
}

// Count returns a number with its noun: "1 pod", "2 pods".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
