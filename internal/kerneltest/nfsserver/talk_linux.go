package nfsserver

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// An upcallFile is a file to which the kernel writes requests, until the file is closed.
type upcallFile struct {
	file *os.File
	done chan struct{}
}

// openUpcallFile opens a file so that Close ends a blocked read.
func openUpcallFile(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// answerUpcalls answers the requests in the file, and closes the file in the end.
func answerUpcalls(file *os.File, answer func(question []byte) []byte) *upcallFile {
	t := &upcallFile{file, make(chan struct{})}
	go func() {
		defer close(t.done)
		_ = answerAll(file, answer) // ends when the file is closed, or the server has ended
	}()
	return t
}

func (t *upcallFile) end() error {
	err := t.file.Close()
	<-t.done
	return err
}

func answerAll(file *os.File, answer func(question []byte) []byte) error {
	buf := make([]byte, 1<<15)
	for {
		n, err := next(file, buf)
		if err != nil {
			return err
		}
		// The kernel may have dropped its question.
		_, _ = file.Write(answer(buf[:n]))
	}
}

// next waits for a question. An empty read means that there is none yet.
func next(file *os.File, buf []byte) (n int, err error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var readErr error
	err = conn.Read(func(fd uintptr) (done bool) {
		n, readErr = unix.Read(int(fd), buf)
		early := n == 0 && readErr == nil || errors.Is(readErr, unix.EAGAIN) || errors.Is(readErr, unix.EINTR)
		return !early
	})
	return n, errors.Join(err, readErr)
}

// writeFile writes to one of the kernel's files, in one call.
func writeFile(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(text); err != nil {
		return errors.Join(fmt.Errorf("write %q: %w", text, err), file.Close())
	}
	return file.Close()
}
