package nfsserver

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A talk is a file in which the kernel asks and we answer, until it is closed.
type talk struct {
	file *os.File
	done chan struct{}
}

// openTalk opens a file in the way that lets Close end a read.
func openTalk(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// listen answers what is asked in the file, and closes it in the end.
func listen(file *os.File, answer func(question []byte) []byte) *talk {
	t := &talk{file, make(chan struct{})}
	go func() {
		defer close(t.done)
		_ = converse(file, answer) // until the file is closed, or the server has gone
	}()
	return t
}

func (t *talk) end() error {
	err := t.file.Close()
	<-t.done
	return err
}

func converse(file *os.File, answer func(question []byte) []byte) error {
	buf := make([]byte, 1<<15)
	for {
		n, err := next(file, buf)
		if err != nil {
			return err
		}
		// What the kernel does not want any more is no concern of ours.
		_, _ = file.Write(answer(buf[:n]))
	}
}

// next waits for a question. To read nothing is to be early here, not at an end.
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

// writeFile writes to one of the kernel's files, in one piece.
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
