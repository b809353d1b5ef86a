package nfsserver

import (
	"os"
	"path/filepath"
	"time"
)

// track talks about clients while a server starts, and until it is stopped. The
// pipe for it appears only then, and the server waits for somebody to open it, for
// a second. If nobody has, it starts all the same, and makes clients wait.
func track(pipes string) *tracking {
	t := &tracking{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		file := t.open(filepath.Join(pipes, "nfsd/cld"))
		if file == nil {
			return
		}
		talk := listen(file, remember)
		<-t.stop
		_ = talk.end()
	}()
	return t
}

type tracking struct{ stop, done chan struct{} }

// open waits for the pipe, and returns nil if it is too late for it.
func (t *tracking) open(pipe string) *os.File {
	for {
		if file, err := openTalk(pipe); err == nil {
			return file
		}
		select {
		case <-t.stop:
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (t *tracking) end() {
	close(t.stop)
	<-t.done
}
