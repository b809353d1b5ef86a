package screen

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether a file is a terminal with a movable cursor.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil && os.Getenv("TERM") != "dumb"
}

// sizeOf returns the current size of a terminal; 80 by 24 if the terminal reports none.
func sizeOf(terminal *os.File) size {
	now, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil || now.Col == 0 || now.Row == 0 {
		return usualSize
	}
	return size{int(now.Col), int(now.Row)}
}

func notifyResized(c chan<- os.Signal) { signal.Notify(c, unix.SIGWINCH) }
