package helper

import (
	"fmt"
	"os"

	"github.com/volumekit/volumekit/mount/internal/options"
	"golang.org/x/sys/unix"
)

// maxOutput limits the output of a helper.
const maxOutput = 64 << 10

// newMemoryFile returns a file in memory that cannot grow, at its beginning.
func newMemoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.WriteAt(content, 0); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// readOutput returns the output, redacted and as one line. The helper shares the offset of
// the file, which is the end of its output.
func (r *Run) readOutput() string {
	end, err := unix.Seek(int(r.output.Fd()), 0, unix.SEEK_CUR)
	if err != nil || end <= 0 {
		return ""
	}
	text := make([]byte, min(end, maxOutput))
	n, _ := r.output.ReadAt(text, 0)
	return makePrintable(options.Redact(string(text[:n]), r.secrets))
}
