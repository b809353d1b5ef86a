package disk

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// The marker occupies the first sector. A program that uses the device for something else
// overwrites that sector.
//
// mkfs.ext4 leaves the sector alone: the marker has the magic number of a BSD disk label at
// its place, and -E nodiscard keeps mkfs from erasing the device. The other programs
// overwrite the sector with zeros and soon after that with their superblock.
const (
	markerSize   = 512
	markerPrefix = "volumekit formats "
	bsdMagic     = "\x57\x45\x56\x82"
	bsdMagicAt   = 64
)

var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

func markerOf(uuid string) []byte {
	b := make([]byte, markerSize)
	copy(b, markerPrefix+uuid)
	copy(b[bsdMagicAt:], bsdMagic)
	return b
}

// readMarker returns the UUID in the marker, "" if there is no marker.
func readMarker(r io.ReaderAt) (uuid string, err error) {
	sector := make([]byte, markerSize)
	if _, err := r.ReadAt(sector, 0); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	rest, ok := strings.CutPrefix(string(sector), markerPrefix)
	const uuidSize = 36
	if !ok || !uuidPattern.MatchString(rest[:uuidSize]) {
		return "", nil
	}
	uuid = rest[:uuidSize]
	if string(sector) != string(markerOf(uuid)) {
		return "", nil
	}
	return uuid, nil
}

// A withoutMarker is a device whose first sector reads as zeros.
type withoutMarker struct{ io.ReaderAt }

// ReadAt implements io.ReaderAt.
func (w withoutMarker) ReadAt(into []byte, at int64) (int, error) {
	n, err := w.ReaderAt.ReadAt(into, at)
	if at < markerSize {
		clear(into[:min(int64(n), markerSize-at)])
	}
	return n, err
}

// NewUUID returns a random UUID for a file system. Its second half is a hash of the first,
// so that an unfinished file system shows that a format of this package made it.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:8]) // never fails
	b[6] = b[6]&0x0f | 0x80 // version 8: of the application's own
	hash := uuidHash([8]byte(b[:8]))
	copy(b[8:], hash[:])
	return formatUUID(b)
}

func uuidHash(half [8]byte) (rest [8]byte) {
	sum := sha256.Sum256(append([]byte(markerPrefix), half[:]...))
	copy(rest[:], sum[:])
	rest[0] = rest[0]&0x3f | 0x80 // the variant of RFC 9562
	return rest
}

func formatUUID(b [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// isOwnUUID reports whether NewUUID made a UUID.
func isOwnUUID(uuid string) bool {
	b, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	return err == nil && len(b) == 16 && uuidHash([8]byte(b[:8])) == [8]byte(b[8:])
}

// wipe overwrites the areas that diskprobe reads with zeros, the first sector last: until
// then it is the marker. The steps are durable one after the other.
func wipe(ctx context.Context, w io.WriterAt, size int64, marker []byte) error {
	writeFirst := func(sector []byte) error {
		_, err := w.WriteAt(sector, 0)
		return err
	}
	for _, step := range []func() error{
		func() error { return writeFirst(marker) },
		func() error { return clearAreas(ctx, w, size) },
		func() error { return writeFirst(make([]byte, markerSize)) },
	} {
		if err := step(); err != nil {
			return err
		}
		if file, ok := w.(interface{ Sync() error }); ok {
			if err := file.Sync(); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeSector overwrites the first sector of the device.
func writeSector(h Handle, sector []byte) error {
	return h.Write(func(w io.WriterAt) error {
		_, err := w.WriteAt(sector, 0)
		return err
	})
}

// clearAreas writes zeros to the first 2 MiB of the device, except the first sector, which
// holds the marker, and to the last 1 MiB.
func clearAreas(ctx context.Context, w io.WriterAt, size int64) error {
	const step, head, tail = 1 << 20, 2 << 20, 1 << 20
	zeros := make([]byte, step)
	for _, at := range []int64{markerSize, step, max(head, size-tail)} {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := max(0, min(step, size-at))
		if _, err := w.WriteAt(zeros[:n], at); err != nil {
			return err
		}
	}
	return nil
}
