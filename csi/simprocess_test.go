package csi_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
)

// A simProcess is one life of the node's process: a manager and the plugin.
type simProcess struct {
	s       *simulation
	manager *manager.Manager
	plugin  *csi.Plugin
	cancel  context.CancelFunc
	ended   chan error
	// killIn counts the calls of drivers until the process is killed; 0: it is not. With killAfter the
	// call takes effect.
	killIn    atomic.Int64
	killAfter atomic.Bool

	once sync.Once
	dead atomic.Bool
	// files are those at the end of the process. It may write more while it winds down.
	files map[string]string
}

// start starts the node's process on the present files.
func (s *simulation) start() {
	s.log("start")
	p := &simProcess{s: s, ended: make(chan error, 1)}
	s.process = p
	host, err := volume.NewHost(s.Context(), s.root, volume.WithNodeName("node"))
	s.must(err)
	p.plugin = csi.New(csi.Config{
		Mounter: s.kernel, Drivers: p, Objects: simObjects{}, Attachments: simAttacher{s}, Tokens: transcriptReader{},
	})
	plugins, err := volume.NewVolumePluginMgr(s.Context(), host, p.plugin)
	s.must(err)
	p.manager, err = manager.New(manager.Config{
		Plugins: plugins, Mounter: s.kernel, Pods: s.source, Claims: s.source, Events: s.event, Expansions: s.source.recordExpansion,
		Workers: 1 + s.IntN(4), Refresh: 5 * time.Minute,
	})
	s.must(err)
	ctx, cancel := context.WithCancel(s.Context())
	p.cancel = cancel
	go func() { p.ended <- p.manager.Run(ctx) }()
}

func (s *simulation) must(errs ...error) {
	for _, err := range errs {
		if err != nil {
			s.fail("%v", err)
		}
	}
}

// Driver implements csi.Drivers.
func (p *simProcess) Driver(name string) (csi.Driver, bool) {
	d := p.s.drivers[name]
	if d == nil || d.unregistered.Load() {
		return csi.Driver{}, false
	}
	return csi.Driver{Name: name, Conn: simConn{p, d.Conn()}, Registration: d.registration.Load(), NodeID: "node"}, true
}

// A simConn is a connection of a process, which ends with the process.
type simConn struct {
	process *simProcess
	grpc.ClientConnInterface
}

var errDead = status.Error(codes.Unavailable, "the process is dead")

// Invoke implements [grpc.ClientConnInterface].
func (c simConn) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	if c.process.dead.Load() {
		return errDead
	}
	isLast := c.process.killIn.Load() > 0 && c.process.killIn.Add(-1) == 0
	if isLast && !c.process.killAfter.Load() {
		c.process.kill()
		return errDead
	}
	err := c.ClientConnInterface.Invoke(ctx, method, request, answer, options...)
	if isLast {
		c.process.kill()
	}
	if c.process.dead.Load() {
		return errDead
	}
	c.process.s.log("  %s: %v", filepath.Base(method), status.Code(err))
	return err
}

// kill kills the process: no call of a driver begins or succeeds any more, and no later change of a file
// lasts.
func (p *simProcess) kill() {
	p.once.Do(func() {
		p.s.log("  killed")
		p.dead.Store(true)
		for p.files = p.s.files(); ; { // until no other goroutine has changed a file meanwhile
			again := p.s.files()
			if maps.Equal(p.files, again) {
				break
			}
			p.files = again
		}
		p.cancel()
	})
}

// reap waits for the end of a killed process, and restores the files.
func (p *simProcess) reap() {
	if err := <-p.ended; err != nil {
		p.s.fail("the manager ended: %v", err)
	}
	p.s.must(p.plugin.Close())
	synctest.Wait()
	p.restore()
}

// restore makes the files those of the end of the process.
func (p *simProcess) restore() {
	for name, text := range p.s.files() {
		if p.files[name] != text {
			p.s.must(os.Remove(name))
		} else {
			delete(p.files, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		p.s.must(os.MkdirAll(filepath.Dir(name), 0o750))
		if target, ok := strings.CutPrefix(p.files[name], simLink); ok {
			p.s.must(os.Symlink(target, name))
		} else {
			p.s.must(os.WriteFile(name, []byte(p.files[name]), 0o600))
		}
	}
}

// restartIfKilled starts the process again if it has been killed.
func (s *simulation) restartIfKilled() {
	if s.process.dead.Load() {
		s.process.reap()
		s.start()
	}
}

// startDriver starts a driver again, and registers it.
func (s *simulation) startDriver(name string) {
	d := s.drivers[name]
	s.must(d.Restart())
	d.registration.Add(1)
	d.unregistered.Store(false)
	s.log("driver %s starts", name)
}

// passTime lets time pass.
func (s *simulation) passTime() {
	d := time.Duration(1+s.IntN(60)) * []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second}[s.IntN(3)]
	s.log("%v pass", d)
	time.Sleep(d)
}
