package util

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/safepath"
)

// RemoveEmptyParents removes the parent directories of name that are empty, from the
// innermost to the one directly below root. It is for directories that the embedder has
// created and no other program uses: those of a pod that is gone. The first directory that
// is not empty stays, as do its parents, and is no error; a missing one is no error either.
// If name is not below root, RemoveEmptyParents returns an error and removes nothing.
//
// If ctx ends first, the error wraps ctx.Err() and the cause; directories may have been
// removed.
func RemoveEmptyParents(ctx context.Context, root, name string) (err error) {
	defer brief.Shorten(&err)
	root, name = path.Clean(root), path.Clean(name)
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/")
	if !ok {
		return fmt.Errorf("remove empty parents: %s is not below %s", name, root)
	}
	top, _, nested := strings.Cut(rest, "/")
	if !nested {
		return nil
	}
	err = safepath.RemoveMade(ctx, path.Join(root, top), path.Dir(name))
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		return nil
	}
	return err
}
