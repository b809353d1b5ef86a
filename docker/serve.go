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
// seconds to undo their work, and Serve returns nil. Volumes stay mounted: containers use them. An invalid configuration is a *field.Error.
//
// Only one process at a time may serve a driver with the same name and Host.
func Serve(ctx context.Context, listener net.Listener, config Config) (err error) {
	defer brief.Shorten(&err)
	d, err := newDriver(ctx, config)
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
	own, err := config.Host.PluginDir("volumekit.io/docker")
	if err != nil {
		return nil, fmt.Errorf("directory of the records: %w", err)
	}
	root := config.Host.Root()
	rel, err := recordstore.Below(root, filepath.Join(own, config.Name))
	if err != nil {
		return nil, fmt.Errorf("directory of the records: %w", err)
	}
	open := func() (*store, error) { return openStore(root, rel, boot) }
	if d.store, _, err = keylock.Await(ctx, opening.Key(own+"/"+config.Name), ctxend.Kernel, open, nil); err != nil {
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
