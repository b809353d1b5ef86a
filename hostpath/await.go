package hostpath

import (
	"context"
	"errors"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
)

// prepare calls Plugin.prepare, and returns by ctx's end if a file system does not answer.
func (m *mounter) prepare(ctx context.Context, s source) (found, error) {
	work := func() (found, error) { return m.plugin.prepare(ctx, s) }
	return queryInTime(ctx, m.plugin, s.path, work, found.close)
}

// lookInTime returns the file at a path, closed, by ctx's end.
func (p *Plugin) lookInTime(ctx context.Context, name string) (found, error) {
	work := func() (found, error) { return look(name) }
	return queryInTime(ctx, p, name, work, func(found) {})
}

// queryInTime runs work, and returns when ctx ends. Until work that it leaves behind has ended, later
// calls for the path wait for it: at most one thread is stuck for each path.
func queryInTime[T any](ctx context.Context, p *Plugin, path string, work func() (T, error), late func(T)) (T, error) {
	unlock, err := p.asking.Lock(ctx, path)
	if err != nil {
		var none T
		return none, noAnswerError(ctx)
	}
	return await(ctx, work, late, unlock)
}

// look returns the file at a path, closed.
func look(name string) (found, error) {
	there, err := open(name)
	there.close()
	there.file = nil
	return there, err
}

// await waits for work until ctx ends. A result that comes later goes to late. end is called
// after work in any case.
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
		return none, noAnswerError(ctx)
	}
}

func noAnswerError(ctx context.Context) error {
	return util.Transient(errors.Join(errNoAnswer, ctxend.Error(ctx)))
}

var errNoAnswer = errors.New("the path's file system has not answered")
