package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/examples/internal/cli"
)

// A console prints whole lines, and knows whether all went well.
type console struct {
	stdout, stderr io.Writer
	prefix         string // of every line
	failed         bool
}

func (c *console) printf(format string, args ...any) {
	c.write(c.stdout, fmt.Sprintf(format, args...))
}

// fail reports an error, in one line.
func (c *console) fail(err error) {
	c.failed = true
	c.write(c.stderr, "podvolumes: "+cli.OneLine(err.Error())+"\n")
}

// write counts output that nobody gets as a failure.
func (c *console) write(w io.Writer, text string) {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(c.prefix + line)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		c.failed = true
	}
}

func (c *console) status() int {
	if c.failed {
		return 1
	}
	return 0
}

// plain quotes what would not look like itself in a line.
func plain(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// errInterrupted replaces the errors that an interrupt causes.
var errInterrupted = errors.New("interrupted")
