package nfsserver

import (
	"os"
	"path/filepath"
	"time"
)

// track answers messages about clients from the server's start to its stop. The pipe appears
// with the start, and the server waits a second for a process to open it. Without one it
// starts nevertheless, and makes clients wait.
func track(pipes string) *tracking {
	t := &tracking{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		file := t.open(filepath.Join(pipes, "nfsd/cld"))
		if file == nil {
			return
		}
		talk := answerUpcalls(file, answerTracking)
		<-t.stop
		_ = talk.end()
	}()
	return t
}

type tracking struct{ stop, done chan struct{} }

// open waits for the pipe, and returns nil after the server's stop.
func (t *tracking) open(pipe string) *os.File {
	for {
		if file, err := openUpcallFile(pipe); err == nil {
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
