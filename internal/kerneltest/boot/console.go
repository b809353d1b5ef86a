package boot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/volumekit/volumekit/internal/kerneltest/guest"
)

// A report is what the console said.
type report struct {
	began, ended bool
	code         int    // of the test, if it ended
	kernel       string // what the kernel said before the test began
}

// failure says what happened to a kernel whose test did not end.
func (r report) failure() error {
	if r.began {
		return errors.New("the kernel hung, or ended, before the test did")
	}
	return fmt.Errorf("the kernel did not start:\n%s", r.kernel)
}

// listen copies the test's output from the console to out, until the test or the
// console ends. It calls began when the test begins.
func listen(console io.Reader, out io.Writer, began func()) (r report, err error) {
	lines := bufio.NewReader(console)
	for {
		line, readErr := lines.ReadString('\n')
		if err := r.hear(line, out, began); err != nil || r.ended {
			return r, err
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return r, nil
		case readErr != nil:
			return r, fmt.Errorf("read the console: %w", readErr)
		}
	}
}

// hear takes one line, or what there is of it when the console ends.
func (r *report) hear(line string, out io.Writer, began func()) (err error) {
	if !r.began {
		said, _, ok := strings.Cut(line, strings.TrimSuffix(guest.Begin, "\n"))
		r.kernel += said
		if ok {
			r.began = true
			began()
		}
		return nil
	}
	// What the test wrote last need not end its line.
	if at := strings.IndexByte(line, guest.End(0)[0]); at >= 0 {
		if r.code, r.ended = guest.ParseEnd(line[at:]); r.ended {
			line = line[:at]
		}
	}
	_, err = io.WriteString(out, line)
	return err
}
