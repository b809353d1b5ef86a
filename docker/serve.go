package docker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/volumekit/volumekit/internal/bootid"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/internal/socketfile"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A driver serves one plugin.
type driver struct {
	config Config
	abilities
	manager  *volume.VolumePluginMgr
	store    *store
	mounts   string // the directory of the mounts
	process  string // a random name of this process
	locks    keylock.Map
	measured measurements

	mu    sync.Mutex     // guards ended
	ended bool           // no call begins any more
	calls sync.WaitGroup // calls in flight, and the work at the start
}

// Serve serves the plugin on the listener until ctx ends, and closes the listener. It first initialises
// the plugin and reads the records. After the end of ctx, calls in flight have the grace period to end, and then up to 10
// seconds to undo their work, and Serve returns nil. Volumes stay mounted: containers use them. Steps of the calls are
// reported to the receivers of ctx, see package util/progress. An invalid configuration is a *field.Error.
//
// A driver that another process serves, with the same name and Host, is an error.
func Serve(ctx context.Context, listener net.Listener, config Config) (err error) {
	defer brief.Shorten(&err)
	release, err := lockRecords(ctx, config)
	var d *driver
	if err == nil {
		defer release()
		d, err = newDriver(ctx, config)
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return listener.Close()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("serve driver %s: %w", brief.Name(config.Name), err), listener.Close())
	}
	if l, ok := listener.(*socketfile.Listener); ok {
		l.LogTo(d.config.Logger)
	}
	server := &http.Server{
		Handler: d.handler(), ConnContext: withPeer,
		BaseContext:       func(net.Listener) context.Context { return progress.Inherit(context.Background(), ctx) },
		ReadHeaderTimeout: bodyTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.calls.Go(func() { d.takeDownAllUnused(ctx) })
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
		err = fmt.Errorf("serve driver %s: %w", config.Name, err)
		close(served)
	case <-ctx.Done():
	}
	cancel()
	d.shutDown(server)
	<-served // the listener is closed
	return err
}

// beginCall reports whether a call may begin, which ends with calls.Done.
func (d *driver) beginCall() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.calls.Add(1)
	}
	return !d.ended
}

// shutDown waits for the calls in flight for the grace period, cuts their connections then, and waits a while for their
// ends: they end soon, except in a file system that does not answer.
func (d *driver) shutDown(server *http.Server) {
	grace, cancel := context.WithTimeout(context.Background(), d.config.GracePeriod)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close()
	}
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	ended := make(chan struct{})
	go func() { d.calls.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(2 * undoTime):
		d.config.Logger.Warn("calls do not end")
	}
}

// newDriver initialises the plugin, and reads the records.
func newDriver(ctx context.Context, config Config) (*driver, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	d := &driver{config: config.defaults(), process: rand.Text(), measured: measurements{by: map[string]*measurementOf{}}}
	var err error
	if d.manager, err = volume.NewVolumePluginMgr(ctx, config.Host, config.Plugin); err != nil {
		return nil, err
	}
	if d.abilities, err = abilitiesOf(d.config); err != nil {
		return nil, err
	}
	boot, err := bootid.Read()
	if err != nil {
		return nil, err
	}
	root, rel, err := config.recordsDir()
	if err != nil {
		return nil, err
	}
	open := func() (*store, error) { return openStore(root, rel, boot) }
	if d.store, _, err = keylock.Await(ctx, opening.Key(filepath.Join(root, rel)), ctxend.Kernel, open, nil); err != nil {
		return nil, fmt.Errorf("open the records: %w", err)
	}
	d.mounts = filepath.Join(root, rel, "mounts")
	if _, err := safepath.MkdirAll(ctx, root, d.mounts, 0o700); err != nil {
		return nil, fmt.Errorf("directory of the mounts: %w", err)
	}
	for _, err := range d.store.unreadable() {
		d.config.Logger.Error("the volume cannot be used", "error", brief.Of(err))
	}
	return d, nil
}

// recordsDir returns the directory of the driver's records, below the root of the host.
func (c *Config) recordsDir() (root, dir string, err error) {
	root = c.Host.Root()
	own, err := c.Host.PluginDir("volumekit.io/docker")
	if err == nil {
		dir, err = recordstore.Below(root, filepath.Join(own, c.Name))
	}
	if err != nil {
		err = fmt.Errorf("directory of the records: %w", err)
	}
	return root, dir, err
}

var errServed = errors.New("another process serves this driver")

// lockRecords locks the records of a driver for this process, until release or the end of the process. A process that has
// been killed may hold the lock for an instant.
func lockRecords(ctx context.Context, c Config) (release func(), err error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	root, dir, err := c.recordsDir()
	if err != nil {
		return nil, err
	}
	const tries, pause = 20, 50 * time.Millisecond
	lock := func() (func(), error) {
		if err := (recordstore.Dir{Root: root, Path: dir, Mode: 0o700}).Create(); err != nil {
			return nil, err
		}
		return lockFile(filepath.Join(root, dir, "lock"))
	}
	for try := 1; ; try++ {
		release, _, err = keylock.Await(ctx, opening.Key(filepath.Join(root, dir)), ctxend.Kernel, lock, func(release func(), err error) {
			if err == nil {
				release()
			}
		})
		if !errors.Is(err, errServed) || try == tries || ctxend.Sleep(ctx, pause) != nil {
			return release, err
		}
	}
}

// opening has the directories of the stores that are being opened: a file system that does not answer costs one call for
// each.
var opening keylock.Map

// takeDownAllUnused takes down the volumes without users, as a process leaves them that was killed.
func (d *driver) takeDownAllUnused(ctx context.Context) {
	var all sync.WaitGroup
	for _, is := range d.store.all() {
		if !is.usage.Up || len(is.usage.Users) > 0 {
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, shortTime, errTooLong)
			defer cancel()
			err := d.guarded(is.record, func() error {
				return d.exclusively(ctx, is.Name, func(rec record, use usage, exists bool) error {
					if !exists {
						return nil
					}
					return d.takeDownUnused(ctx, rec, use)
				})
			})
			if err != nil {
				d.config.Logger.Warn("an unused volume stays mounted", "error", redaction.Message(brief.Of(err).Error(), d.secrets(is.record)))
			}
		})
	}
	all.Wait()
}

// pod returns the pod in whose name a volume is mounted.
func (d *driver) pod(name string) *v1.Pod {
	sum := sha256.Sum256([]byte(d.path(name)))
	uid := hex.EncodeToString(sum[:16])
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "docker", Name: "docker-" + uid, UID: types.UID(uid)}}
}
