// Package dirwatch watches a directory for changes of its entries.
//
// A watch is for a path, not for the directory that the path leads to when the watch begins: it
// ends, with [ErrMoved], when the path may lead to another directory, so that the caller reads the
// directory at the path and watches again.
package dirwatch

import "errors"

// ErrMoved ends a watch after which the path may lead to another directory, or after which
// changes may have been missed.
var ErrMoved = errors.New("the directory may have been replaced")

// A Func receives a change of a directory: removed are the names of entries that were removed or
// moved away since the last call. Others with these names may exist again.
type Func func(removed []string)
