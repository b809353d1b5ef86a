package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether a file is one on which a cursor can be moved.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil && os.Getenv("TERM") != "dumb"
}

// sizeOf returns the size of a terminal now; one that does not know its own has the usual
// one.
func sizeOf(terminal *os.File) size {
	now, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil || now.Col == 0 || now.Row == 0 {
		return usualSize
	}
	return size{int(now.Col), int(now.Row)}
}

func notifyResized(c chan<- os.Signal) { signal.Notify(c, unix.SIGWINCH) }
