package spec

import (
	"path"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/failure"
)

// CheckPath accepts an absolute path strictly below the root.
func CheckPath(field, p string) error {
	if err := CheckAbsolute(field, p); err != nil {
		return err
	}
	if path.Clean(p) == "/" {
		return failure.NewInputError(field, p, `the path must be below "/"`)
	}
	return nil
}

// CheckAbsolute accepts an absolute path without "..".
func CheckAbsolute(field, p string) error {
	switch {
	case p == "":
		return failure.NewInputError(field, p, "a path is required")
	case strings.ContainsRune(p, 0):
		return failure.NewInputError(field, p, "a path must not contain NUL")
	case !strings.HasPrefix(p, "/"):
		return failure.NewInputError(field, p, "the path must be absolute")
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return failure.NewInputError(field, p, `the path must not contain ".."`)
		}
	}
	return nil
}

// CheckSource accepts a name that the source of a mount can have.
func CheckSource(source string) error {
	switch {
	case source == "":
		return failure.NewInputError("Source", source, "a source is required")
	case strings.ContainsRune(source, 0):
		return failure.NewInputError("Source", source, "a source must not contain NUL")
	}
	return nil
}
