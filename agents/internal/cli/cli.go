// Package cli holds the common parts of programs: flags, lines, and interrupts.
// It does not depend on volumes.
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

	"github.com/volumekit/volumekit/internal/optionlist"
)

// Context returns a context that ends on SIGINT and SIGTERM. A closed pipe (SIGPIPE) does
// not kill the program, so that it can clean up.
func Context() (ctx context.Context, stop context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// Parse parses flags. Further arguments and flags with an empty value are errors. If the
// arguments request the usage, Parse prints about and the usage, and returns flag.ErrHelp,
// or the error of printing.
func Parse(set *flag.FlagSet, args []string, help io.Writer, about string) error {
	set.SetOutput(io.Discard)
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return printHelp(set, help, about)
	case err != nil:
		return err
	case set.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	return checkEmpty(set)
}

func printHelp(set *flag.FlagSet, help io.Writer, about string) error {
	var text strings.Builder
	set.SetOutput(&text)
	set.PrintDefaults()
	var usage strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(text.String(), "\t", "    ")) {
		usage.WriteString(fold(line, width))
	}
	if _, err := fmt.Fprintf(help, "%s\n%s", about, &usage); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return flag.ErrHelp
}

// checkEmpty refuses -flag "", which a shell passes for an unset variable: falling back to
// the default would be a surprise.
func checkEmpty(set *flag.FlagSet) (err error) {
	set.Visit(func(f *flag.Flag) {
		if err == nil && f.Value.String() == "" {
			err = fmt.Errorf("flag -%s needs a value that is not empty", f.Name)
		}
	})
	return err
}

// A List is a flag that may be given several times, with commas.
type List []string

// String returns the list as one value of the flag.
func (l *List) String() string { return strings.Join(*l, ",") }

// Set adds to the list.
func (l *List) Set(list string) error {
	for item := range strings.SplitSeq(list, ",") {
		if item == "" {
			return errors.New("an element of the list is empty")
		}
		*l = append(*l, item)
	}
	return nil
}

// Options are mount options, as mount(8) takes them after -o.
type Options []string

// String returns the options as one value of the flag.
func (o *Options) String() string { return strings.Join(*o, ",") }

// Set adds to the options. Commas in double quotes are a part of an option.
func (o *Options) Set(list string) error {
	*o = append(*o, optionlist.Split(list)...)
	return nil
}

// Paths is a List of absolute paths.
type Paths []string

// String returns the paths as one value of the flag.
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

// OneLine returns an untrusted text as one line.
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

// ReadFile returns the text of a file, of at most limit bytes; "-" is standard input.
func ReadFile(name string, stdin io.Reader, limit int) ([]byte, error) {
	if name == "-" {
		return readAll(stdin, limit)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return readAll(f, limit)
}

func readAll(r io.Reader, limit int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(text) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return text, err
}
