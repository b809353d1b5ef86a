package poddirs

import (
	"errors"
	"io/fs"
	"os"
	"slices"
)

// Names returns the names in a directory, sorted; none for a missing directory. For
// another kind of file it returns errNoDirectory.
func Names(dir string) ([]string, error) {
	f, err := openDirectory(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case isNotDirectory(err):
		if _, err := os.Lstat(dir); err != nil {
			return nil, nil // its parent is not a directory
		}
		return nil, errNoDirectory
	case err != nil:
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, f.Close())
}

// NamesIn is Names, but returns no names for another kind of file.
func NamesIn(dir string) ([]string, error) {
	names, err := Names(dir)
	if errors.Is(err, errNoDirectory) {
		return nil, nil
	}
	return names, err
}
