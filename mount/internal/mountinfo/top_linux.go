package mountinfo

import (
	"context"
	"path"

	"github.com/volumekit/volumekit/mount/internal/kernel"
)

// TopAt returns the table's entry of the top mount at a name in a directory. It is for a mount that no lookup enters any
// more (ESTALE), since its directory was removed on the server. Without a mount there the error wraps [ErrNotInTable].
func TopAt(ctx context.Context, parent int, name string) (Entry, error) {
	dir, err := kernel.PathOf(parent)
	if err != nil {
		return Entry{}, err
	}
	table, err := Read(ctx)
	if err != nil {
		return Entry{}, err
	}
	at, ok := ViewEntries(table).At(path.Join(dir, name))
	if !ok {
		return Entry{}, ErrNotInTable
	}
	return table[at], nil
}
