package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/volumekit/volumekit/agents/internal/cli"
)

// A console prints whole lines, and counts failures.
type console struct {
	stdout, stderr io.Writer
	failed         bool
}

func (c *console) printf(format string, args ...any) {
	c.write(c.stdout, fmt.Sprintf(format, args...))
}

// fail reports an error, in one line.
func (c *console) fail(err error) {
	c.failed = true
	c.write(c.stderr, "nfs: "+cli.OneLine(err.Error())+"\n")
}

// write counts output that cannot be written as a failure.
func (c *console) write(w io.Writer, text string) {
	if _, err := io.WriteString(w, text); err != nil {
		c.failed = true
	}
}

func (c *console) status() int {
	if c.failed {
		return 1
	}
	return 0
}

// errInterrupted replaces the errors that an interrupt causes.
var errInterrupted = errors.New("interrupted")
