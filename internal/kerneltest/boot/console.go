package boot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/volumekit/volumekit/internal/kerneltest/guest"
)

// A report summarises the console's output.
type report struct {
	began, ended bool
	code         int    // of the test, if it ended
	kernel       string // the kernel's messages before the test began
}

// failure describes a kernel whose test did not end.
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
		if err := r.handleLine(line, out, began); err != nil || r.ended {
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

// handleLine handles one line, or an incomplete one at the end of the console.
func (r *report) handleLine(line string, out io.Writer, began func()) (err error) {
	if !r.began {
		said, _, ok := strings.Cut(line, strings.TrimSuffix(guest.Begin, "\n"))
		r.kernel += said
		if ok {
			r.began = true
			began()
		}
		return nil
	}
	// The test's last output may lack a line feed.
	if at := strings.IndexByte(line, guest.End(0)[0]); at >= 0 {
		if r.code, r.ended = guest.ParseEnd(line[at:]); r.ended {
			line = line[:at]
		}
	}
	_, err = io.WriteString(out, line)
	return err
}
