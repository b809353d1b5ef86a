package flexvolume

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
)

// An installed is a driver as it is installed: its executable, and the answer to init.
type installed struct {
	path    string
	version version
	capabilities

	mu          sync.Mutex
	unsupported map[string]bool // operations
}

// A version is the identity of an executable: another one has replaced it if the version differs.
type version struct {
	device, inode uint64
	size          int64
	changed       time.Time // ctime
}

// An inspector returns the version of the executable at, in the directory sub of the directory dir.
type inspector func(dir, sub, at string) (version, error)

// isUnsupported reports whether the driver has answered that it does not support an operation.
func (d *installed) isUnsupported(operation string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unsupported[operation]
}

func (d *installed) markUnsupported(operation string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unsupported == nil {
		d.unsupported = map[string]bool{}
	}
	d.unsupported[operation] = true
}

// A lastInit is the last call of init that has failed.
type lastInit struct {
	failed error
	tried  version
	ended  time.Time
}

// current returns the driver, whose init has succeeded. It calls init for a new executable. Errors are transient, but for
// that of a plugin without Init.
func (p *Plugin) current(ctx context.Context) (*installed, error) {
	if p.host == nil {
		return nil, errNotInitialised
	}
	if ctx.Err() != nil {
		return nil, volume.AsTransient(ctxend.Error(ctx))
	}
	began := time.Now()
	d, _, err := keylock.Await(ctx, p.state.Key(""), ctxend.Plugin, func() (*installed, error) { return p.initOnce(ctx, began) }, nil)
	return d, volume.AsTransient(err)
}

// initOnce calls init for a new executable. A caller that began to wait before a failed init ended gets the error of
// that init. The caller holds p.state.
func (p *Plugin) initOnce(ctx context.Context, began time.Time) (*installed, error) {
	dir := strings.ReplaceAll(p.config.Driver, "/", "~")
	at := path.Join(p.config.Dir, dir, path.Base(p.config.Driver))
	v, err := p.inspect(p.config.Dir, dir, at)
	if err != nil {
		return nil, fmt.Errorf("driver %s: %w", p.config.Driver, err)
	}
	s := &p.init
	ready := p.ready.Load()
	switch {
	case ready != nil && ready.version == v:
		return ready, nil
	case s.failed != nil && s.tried == v && !s.ended.Before(began):
		return nil, s.failed
	}
	d := &installed{path: at, version: v}
	a, err := p.call(ctx, d, call{operation: "init", key: "init"})
	if errors.Is(err, errNotSupported) {
		err = &CallError{Driver: p.config.Driver, Operation: "init", Err: err}
	}
	if err != nil && ctx.Err() == nil { // another caller's context says nothing about the driver
		s.failed, s.tried, s.ended = err, v, time.Now()
	}
	if err != nil {
		return nil, err
	}
	d.capabilities = *a.Capabilities
	p.ready.Store(d)
	return d, nil
}
