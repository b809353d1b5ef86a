package mountinfo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/util/ctxend"
)

// Path is the mount table of the calling thread, which also resolves paths for it. The table
// of the process is that of its first thread, which may be in another mount namespace. Tests
// change it.
var Path = "/proc/thread-self/mountinfo"

// maxRead bounds one read: some thousand mounts, for which the kernel needs some hundredths
// of a second.
const maxRead = 1 << 18

// Read reads the mount table.
func Read(ctx context.Context) ([]Entry, error) {
	return ReadAs(ctx, func(e Entry) Entry { return e })
}

// ReadAs reads the mount table and returns the result of convert for each entry.
func ReadAs[T any](ctx context.Context, convert func(Entry) T) ([]T, error) {
	text, err := readText(ctx, make([]byte, 0, 1<<16)) // on the stack
	if err != nil {
		return nil, err
	}
	return parseTable(text, convert)
}

// readText appends the mount table to text in few, large reads, until ctx ends. Each read
// returns whole lines and continues after the last mount of the read before.
func readText(ctx context.Context, text []byte) ([]byte, error) {
	f, err := os.Open(Path)
	if err != nil {
		return nil, kernel.ExplainMissingProc(err)
	}
	defer func() { _ = f.Close() }()
	for {
		if ctx.Err() != nil {
			return nil, ctxend.Error(ctx)
		}
		n, err := f.Read(text[len(text):min(cap(text), len(text)+maxRead)])
		text = text[:len(text)+n]
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
		if cap(text)-len(text) < 1<<14 {
			text = slices.Grow(text, cap(text))
		}
	}
}

// ErrNotInTable is the error of a mount that the mount table lacks. It wraps fs.ErrNotExist.
var ErrNotInTable = fmt.Errorf("not in the table: %w", fs.ErrNotExist)

// FindMount returns the position of the mount with a mount ID in the table, or an error that
// wraps [ErrNotInTable].
func FindMount(table []Entry, mountID uint64) (int, error) {
	at := slices.IndexFunc(table, func(e Entry) bool { return uint64(e.ID) == mountID })
	if at < 0 {
		return at, fmt.Errorf("mount %d is %w", mountID, ErrNotInTable)
	}
	return at, nil
}

// EntryOf reads the table's entry of the mount that fd is in.
func EntryOf(fd int) (Entry, error) {
	id, err := kernel.Identify(fd)
	if err != nil {
		return Entry{}, err
	}
	table, err := Read(context.Background())
	if err != nil {
		return Entry{}, err
	}
	at, err := FindMount(table, id.Mount)
	if err != nil {
		return Entry{}, err
	}
	return table[at], nil
}
