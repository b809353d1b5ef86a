package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	v1 "k8s.io/api/core/v1"
)

// maxRecord is the largest size of a record in bytes.
const maxRecord = 16 << 20

var (
	errLargeRecord = fmt.Errorf("a record must have at most %d bytes", maxRecord)
	errNotRegular  = errors.New("not a regular file")
)

// FileName returns a file name of fixed length: a volume's name may have any length and
// contain any character.
func FileName(name v1.UniqueVolumeName) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16]) + ".json"
}

// writeSynced creates a file. It first removes an existing file, which may be a pipe.
func writeSynced(root *os.Root, name string, text []byte) error {
	if err := IgnoreMissing(root.Remove(name)); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes the names in a directory durable.
func syncDir(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// IgnoreMissing returns nil for a missing file.
func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readRegular reads a regular file of at most maxRecord bytes. It does not block.
func readRegular(path string) (text []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openRegular, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	case info.Size() > maxRecord:
		return nil, errLargeRecord
	}
	return io.ReadAll(io.LimitReader(f, maxRecord))
}
