package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Console prints whole lines, and records whether the program failed.
type Console struct {
	Program        string // in front of errors
	Prefix         string // of every line
	Stdout, Stderr io.Writer

	failed bool
	out    *Output // set by Listen
}

// width limits the lines on standard output, except for words that are longer.
const width = 100

// Printf prints to standard output, and folds long lines.
func (c *Console) Printf(format string, args ...any) {
	var b strings.Builder
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		b.WriteString(fold(line, width-len(c.Prefix)))
	}
	c.write(c.Stdout, b.String())
}

// Fail prints an error to standard error, in one line.
func (c *Console) Fail(err error) {
	c.failed = true
	c.write(c.Stderr, c.Program+": "+OneLine(err.Error())+"\n")
}

// write counts output that cannot be written as a failure.
func (c *Console) write(w io.Writer, text string) {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(c.Prefix + line)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		c.failed = true
	}
}

// Status returns the exit status.
func (c *Console) Status() int {
	if c.failed {
		return 1
	}
	return 0
}

// Listen returns a context that ends when the output cannot be written any more.
func (c *Console) Listen(ctx context.Context) context.Context {
	ctx, c.out = NewOutput(ctx, c.Stdout)
	c.Stdout = c.out
	return ctx
}

// OutputErr returns the error of the output since Listen.
func (c *Console) OutputErr() error {
	if c.out == nil {
		return nil
	}
	return c.out.Err()
}

// Close reports the error of the output, and ends the context of Listen.
func (c *Console) Close() {
	if err := c.OutputErr(); err != nil {
		c.Fail(err)
	}
	c.out.Close()
}

// fold breaks a line at blanks, and indents the rest by at least 4 blanks, and as far as the
// line.
func fold(line string, width int) string {
	indent := strings.Repeat(" ", max(4, len(line)-len(strings.TrimLeft(line, " "))))
	var b strings.Builder
	for {
		runes := []rune(strings.TrimSuffix(line, "\n"))
		if len(runes) <= width {
			return b.String() + line
		}
		rest := strings.TrimLeft(line, " ")
		margin := len(line) - len(rest)
		at := strings.LastIndex(string(runes[margin:width+1]), " ")
		if at < 0 {
			at = strings.IndexAny(rest, " \n")
		}
		if at < 0 || strings.TrimSpace(rest[at:]) == "" {
			return b.String() + line
		}
		b.WriteString(strings.TrimRight(line[:margin+at], " ") + "\n")
		line = indent + strings.TrimLeft(rest[at:], " ")
	}
}

// Plain quotes a text that does not print as itself in a line.
func Plain(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Quoted returns a word as a shell takes it.
func Quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
