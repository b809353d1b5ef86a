// Package cli is what the example programs have in common as programs: flags, lines, and
// how they are interrupted. It knows nothing of volumes.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Context returns one that ends when the program is told to end. A reader of its output
// who goes away must not keep it from tidying up.
func Context() (ctx context.Context, stop context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// Parse parses flags and nothing else. If the usage is asked for it prints that, and what
// the program is about, and returns flag.ErrHelp.
func Parse(set *flag.FlagSet, args []string, help io.Writer, about string) error {
	set.SetOutput(io.Discard)
	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		set.SetOutput(help)
		_, _ = fmt.Fprintln(help, about)
		set.PrintDefaults()
	}
	if err == nil && set.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	return err
}

// A List is a flag that may be given several times, with commas.
type List []string

// String is as it would be given at once.
func (l *List) String() string { return strings.Join(*l, ",") }

// Set adds to the list.
func (l *List) Set(list string) error {
	for item := range strings.SplitSeq(list, ",") {
		if item == "" {
			return errors.New("an empty one in the list")
		}
		*l = append(*l, item)
	}
	return nil
}

// Paths are a List, and absolute.
type Paths []string

// String is as it would be given at once.
func (p *Paths) String() string { return (*List)(p).String() }

// Set adds to the list.
func (p *Paths) Set(list string) error {
	var more List
	if err := more.Set(list); err != nil {
		return err
	}
	for _, path := range more {
		abs, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		*p = append(*p, abs)
	}
	return nil
}

// OneLine makes a line of a text that may hold what anybody wrote.
func OneLine(text string) string {
	const limit = 800
	text = strings.Join(strings.Fields(text), " ")
	text = strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}
