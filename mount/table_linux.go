package mount

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/volumekit/volumekit/util/ctxend"
)

// tablePath is the mount table of the thread, whose paths the kernel looks up. That
// of the process is the one of its first thread, which may be in another namespace.
// Tests change it.
var tablePath = "/proc/thread-self/mountinfo"

// readTable reads the whole table.
func readTable() (Table, error) { return readTableIn(context.Background()) }

// mostRead is what the kernel is asked for at once: some thousand mounts, which
// take it some hundredths of a second.
const mostRead = 1 << 18

// readTableIn reads the whole table, until ctx ends, in few, large reads: the kernel
// gives whole lines and goes on from the last mount that it gave.
func readTableIn(ctx context.Context) (Table, error) {
	f, err := os.Open(tablePath)
	if err != nil {
		return nil, withoutProc(err)
	}
	defer func() { _ = f.Close() }()
	text := make([]byte, 0, 1<<16)
	for {
		if ctx.Err() != nil {
			return nil, ctxend.Error(ctx)
		}
		n, err := f.Read(text[len(text):min(cap(text), len(text)+mostRead)])
		text = text[:len(text)+n]
		if errors.Is(err, io.EOF) {
			return parseMountinfo(text)
		}
		if err != nil {
			return nil, err
		}
		if cap(text)-len(text) < 1<<14 {
			text = slices.Grow(text, cap(text))
		}
	}
}
