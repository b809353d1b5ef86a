package util

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/util/safepath"
)

// RemoveEmptyParents removes the directories that hold name, from the innermost
// up to the one right below root, as far as they are empty. It is for what an
// embedder has made and no one else uses: the directories of a pod that is gone.
// The first that has something in it stays, as do its parents, and that is no
// error; nor is one that is missing. A name that is not below root is one, and
// nothing is removed.
func RemoveEmptyParents(root, name string) error {
	root, name = path.Clean(root), path.Clean(name)
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/")
	if !ok {
		return fmt.Errorf("remove empty parents: %s is not below %s", name, root)
	}
	top, _, nested := strings.Cut(rest, "/")
	if !nested {
		return nil
	}
	err := safepath.RemoveMade(path.Join(root, top), path.Dir(name))
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		return nil
	}
	return err
}
