// Package initrd writes the archive that a kernel unpacks into its first root
// directory: cpio in the format "newc".
package initrd

import (
	"fmt"
	"io"
)

// Types and permissions of entries, as in stat(2).
const (
	Directory  = 0o040755
	Executable = 0o100755
	Console    = 0o020600 // a character device
)

// An Entry is a file, a directory or a device.
type Entry struct {
	Name         string // without a leading slash; after the directory that it is in
	Mode         uint32
	Data         []byte // of a file
	Major, Minor uint32 // of a device
}

// trailer is the name that ends an archive.
const trailer = "TRAILER!!!"

// Write writes an archive of the entries, in their order.
func Write(w io.Writer, entries []Entry) error {
	for i, e := range entries {
		if err := e.write(w, i+1); err != nil {
			return fmt.Errorf("initrd: %s: %w", e.Name, err)
		}
	}
	return Entry{Name: trailer}.write(w, 0)
}

func (e Entry) write(w io.Writer, inode int) error {
	header := fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		inode, e.Mode, 0, 0, // user, group
		1, 0, // links, time
		len(e.Data), 0, 0, // the device that it is on
		e.Major, e.Minor, len(e.Name)+1, 0, e.Name) // no checksum
	if _, err := w.Write(padded(header)); err != nil {
		return err
	}
	if _, err := w.Write(e.Data); err != nil {
		return err
	}
	_, err := w.Write(padding(len(e.Data)))
	return err
}

func padded(header []byte) []byte { return append(header, padding(len(header))...) }

// padding returns the distance to the next multiple of four.
func padding(length int) []byte { return make([]byte, -length&3) }
