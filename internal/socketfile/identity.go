package socketfile

import "os"

// An Identity identifies a file.
type Identity struct {
	Info os.FileInfo
	// handle is the file handle, which no later file has. Empty: the file system has none.
	handle string
}

// Identify returns the identity of a file, and does not follow a symbolic link. If another file takes
// the place of the file meanwhile, the identity is that of neither.
func Identify(path string) (Identity, error) {
	info, err := os.Lstat(path)
	return Identity{info, handleOf(path)}, err
}

// IsSame reports whether two files are one. Without a handle that is a guess: a file system gives the
// number of a removed file to a later one, and both may have one time of creation, which a socket shows
// as its time of modification.
func (id Identity) IsSame(other Identity) bool {
	return os.SameFile(id.Info, other.Info) && id.Info.ModTime().Equal(other.Info.ModTime()) && id.handle == other.handle
}
