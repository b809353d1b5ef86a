package hostpath

import (
	"context"
	"errors"
	"io/fs"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
)

// prepare is source.prepare for file systems that may not answer: when ctx ends it
// returns. What it leaves at work takes back what it creates, and until then nobody
// else prepares the same path.
func (m *mounter) prepare(ctx context.Context) (found, error) {
	unlock, err := m.plugin.preparing.Lock(ctx, m.source.path)
	if err != nil {
		return found{}, util.Transient(err)
	}
	return await(ctx, func() (found, error) {
		return m.source.prepare()
	}, func(late found, err error) {
		if err == nil {
			late.close()
			_ = late.undo()
		}
	}, unlock)
}

// look returns the type of what is at a path, also of a file system that may not answer.
func look(ctx context.Context, name string) (fs.FileMode, error) {
	return await(ctx, func() (fs.FileMode, error) { return modeOf(name) }, func(fs.FileMode, error) {}, func() {})
}

func modeOf(name string) (fs.FileMode, error) {
	file, mode, err := open(name)
	found{file: file}.close()
	return mode, err
}

// await waits for work until ctx ends. What comes later goes to late. Then comes end, in
// any case.
func await[T any](ctx context.Context, work func() (T, error), late func(T, error), end func()) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers, gone := make(chan answer), make(chan struct{})
	go func() {
		defer end()
		value, err := work()
		select {
		case answers <- answer{value, err}:
		case <-gone:
			late(value, err)
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		close(gone)
		var none T
		return none, util.Transient(errors.Join(errNoAnswer, ctxend.Error(ctx)))
	}
}

var errNoAnswer = errors.New("the path's file system has not answered")
