package local

// nodes looks up paths at which devices may be.
type nodes interface {
	// kind returns the kind of the file at a path. It follows no symbolic link, neither on
	// the way nor at the end.
	kind(path string) (kind, error)
	// readLink returns the target of a symbolic link.
	readLink(path string) (string, error)
}

// A kind is the kind of a file.
type kind int

const (
	kindOther kind = iota
	kindDirectory
	kindDevice
	kindLink
)
