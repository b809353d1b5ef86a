package mount

import (
	"errors"
	"io"
	"os"
	"slices"
)

// tablePath is the mount table of the thread, whose paths the kernel looks up. That
// of the process is the one of its first thread, which may be in another namespace.
// Tests change it.
var tablePath = "/proc/thread-self/mountinfo"

// readTable reads the whole table in few, large reads: the kernel gives whole
// lines and goes on from the last mount that it gave.
func readTable() (Table, error) {
	f, err := os.Open(tablePath)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text := make([]byte, 0, 1<<16)
	for {
		n, err := f.Read(text[len(text):cap(text)])
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
