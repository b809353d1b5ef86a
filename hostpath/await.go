package hostpath

import (
	"context"
	"errors"
	"io/fs"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
)

// prepare is source.prepare for file systems that may not answer.
func (m *mounter) prepare(ctx context.Context) (found, error) {
	work := func() (found, error) { return m.source.prepare(ctx) }
	return ask(ctx, m.plugin, m.source.path, work, found.close)
}

// look returns the type of what is at a path, also of a file system that may not answer.
func (p *Plugin) look(ctx context.Context, name string) (fs.FileMode, error) {
	work := func() (fs.FileMode, error) { return modeOf(name) }
	return ask(ctx, p, name, work, func(fs.FileMode) {})
}

// ask returns when ctx ends. Until what it leaves at work has come to its end, nobody
// else asks about the path: however often a volume is tried, one thread waits for it.
func ask[T any](ctx context.Context, p *Plugin, path string, work func() (T, error), late func(T)) (T, error) {
	unlock, err := p.asking.Lock(ctx, path)
	if err != nil {
		var none T
		return none, noAnswer(ctx)
	}
	return await(ctx, work, late, unlock)
}

func modeOf(name string) (fs.FileMode, error) {
	file, mode, err := open(name)
	found{file: file}.close()
	return mode, err
}

// await waits for work until ctx ends. What comes later goes to late. Then comes end, in
// any case.
func await[T any](ctx context.Context, work func() (T, error), late func(T), end func()) (T, error) {
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
			late(value)
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		close(gone)
		var none T
		return none, noAnswer(ctx)
	}
}

func noAnswer(ctx context.Context) error {
	return util.Transient(errors.Join(errNoAnswer, ctxend.Error(ctx)))
}

var errNoAnswer = errors.New("the path's file system has not answered")
