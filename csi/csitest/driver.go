package csitest

import (
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// errCrashed is the error of calls of a driver that is not running.
var errCrashed = status.Error(codes.Unavailable, "the driver is not running")

// A Driver is a CSI driver in memory. [NewDriver] returns one. It is safe for concurrent use.
type Driver struct {
	csipb.UnimplementedIdentityServer
	csipb.UnimplementedControllerServer
	csipb.UnimplementedNodeServer

	config Config

	mu         sync.Mutex // guards the rest; never held during a delay or a call of Config.Mounter
	volumes    map[string]*volumeState
	calls      []*Call
	inFlight   []*Call                 // without an answer so far, also those whose client has given up
	busy       map[string]*performance // by volume, the call that the driver works on
	number     int                     // of the last call
	faults     []*Fault
	cleared    chan struct{} // closed by ClearFaults
	violations []Violation
	secrets    map[string]bool // values of secrets of all calls
	notReady   bool
	life       *life
	path       string // of the socket; empty: none
}

// A life is the time between a start of the driver and its end.
type life struct {
	ended chan struct{}
	once  sync.Once

	mu      sync.Mutex // guards the rest
	servers []*grpc.Server
	conns   []io.Closer // listeners and connections, also closed ones
}

func newLife() *life { return &life{ended: make(chan struct{})} }

func (l *life) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// NewDriver returns a driver that runs. Its calls come through [Driver.Conn], [Driver.Listen] and
// [Driver.Serve].
func NewDriver(config Config) *Driver {
	return &Driver{
		config: config.withDefaults(), volumes: map[string]*volumeState{}, busy: map[string]*performance{},
		cleared: make(chan struct{}), secrets: map[string]bool{}, life: newLife(),
	}
}

// Name returns the name of the driver.
func (d *Driver) Name() string { return d.config.Name }

// SetReady sets the readiness that Probe returns. A new driver is ready.
func (d *Driver) SetReady(ready bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notReady = !ready
}

// interceptor returns the function that runs the calls of a life: it checks the rules, and adds the
// faults.
func (d *Driver) interceptor(l *life) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		method, service := methodOf(info.FullMethod)
		message, ok := req.(proto.Message)
		if !ok {
			return nil, status.Errorf(codes.Internal, "%s: a request of type %T", method, req)
		}
		p, err := d.begin(ctx, l, method, service, message)
		if err == nil {
			var response any
			if response, err = p.run(ctx, req, handler); err == nil {
				p.call.Response, _ = response.(proto.Message)
			}
		}
		return d.end(p, err)
	}
}

// A performance is a call in progress.
type performance struct {
	driver  *Driver
	call    *Call
	life    *life
	cleared <-chan struct{}
	fault   Fault
	holds   bool          // the driver works on the volume for this call
	ended   chan struct{} // closed by end
}

// begin records a call and checks the rules. It returns the error of a call that the driver refuses.
func (d *Driver) begin(ctx context.Context, l *life, method Method, service string, req proto.Message) (*performance, error) {
	rest, secrets := splitSecrets(req)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number++
	call := &Call{Number: d.number, Method: method, Request: rest, Secrets: secrets, Started: time.Now(), ctx: ctx, volume: volumeKey(req)}
	p := &performance{driver: d, call: call, life: l, cleared: d.cleared, ended: make(chan struct{})}
	if l.hasEnded() {
		return p, errCrashed // nothing has arrived
	}
	if err := ctx.Err(); err != nil { // likewise: the client has given up before, and may have made its next call
		return p, status.FromContextError(err).Err()
	}
	refusal := d.check(call, service)
	d.calls, d.inFlight = append(d.calls, call), append(d.inFlight, call)
	p.fault = d.takeFault(call)
	if refusal != nil {
		return p, refusal
	}
	if call.volume != "" {
		d.awaitAbandoned(call.volume)
		if d.busy[call.volume] != nil {
			return p, status.Errorf(codes.Aborted, "an operation of volume %q is pending", call.volume)
		}
		d.busy[call.volume], p.holds = p, true
	}
	d.expectOutcome(call)
	return p, nil
}

// awaitAbandoned waits until the driver has noticed that the client of its present call for a volume
// has given up. A call with Fault.Late continues. The caller holds d.mu.
func (d *Driver) awaitAbandoned(volume string) {
	for p := d.busy[volume]; p != nil && p.call.ctx.Err() != nil && !p.fault.Late; p = d.busy[volume] {
		d.mu.Unlock()
		<-p.ended
		d.mu.Lock()
	}
}

// run lets the call take effect, with its fault.
func (p *performance) run(ctx context.Context, req any, handler grpc.UnaryHandler) (any, error) {
	if p.fault.Late {
		ctx = context.WithoutCancel(ctx)
	}
	if !p.fault.After {
		if err := p.driver.strike(p.call.ctx, p.life, p.cleared, p.fault); err != nil {
			return nil, err
		}
	}
	if p.life.hasEnded() {
		return nil, errCrashed
	}
	response, err := handler(ctx, req)
	if err != nil {
		return nil, err
	}
	if message, ok := response.(proto.Message); ok && p.fault.Answer != nil {
		p.fault.Answer(message)
	}
	if p.fault.After {
		err = p.driver.strike(p.call.ctx, p.life, p.cleared, p.fault)
	}
	return response, err
}

// end records the end of a call, and the outcome that its client has seen.
func (d *Driver) end(p *performance, err error) (any, error) {
	call := p.call
	d.mu.Lock()
	defer d.mu.Unlock()
	defer close(p.ended)
	if p.holds {
		delete(d.busy, call.volume)
	}
	d.inFlight = slices.DeleteFunc(d.inFlight, func(other *Call) bool { return other == call })
	call.Lost = call.ctx.Err() != nil || p.life.hasEnded()
	call.Ended = time.Now()
	if call.Err = err; err != nil {
		call.Response = nil
	}
	if p.holds && !call.Lost {
		d.learnOutcome(call)
	}
	if p.life.hasEnded() {
		return nil, errCrashed
	}
	if err != nil {
		return nil, err
	}
	return call.Response, nil
}

// A Volume is the state of a volume of a [Driver].
type Volume struct {
	ID        string
	Context   map[string]string
	Capacity  int64    // 0: unknown
	Attached  []string // node IDs
	Staged    []string // paths
	Published []string // paths
}

// AddVolume adds a volume, as if an administrator had created it. It uses ID, Context and Capacity.
func (d *Driver) AddVolume(v Volume) {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := d.volume(v.ID)
	state.creation.inEffect, state.creation.known = true, knownPresent
	state.context, state.capacity = maps.Clone(v.Context), v.Capacity
}

// Volumes returns the volumes that exist, or that are in use, sorted by their IDs.
func (d *Driver) Volumes() []Volume {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Volume
	for _, id := range slices.Sorted(maps.Keys(d.volumes)) {
		v := d.volumes[id]
		state := Volume{
			ID: id, Context: maps.Clone(v.context), Capacity: v.capacity,
			Attached: v.attached.keysInEffect(), Staged: v.staged.keysInEffect(), Published: v.published.keysInEffect(),
		}
		if v.creation.inEffect || len(state.Attached)+len(state.Staged)+len(state.Published) > 0 {
			all = append(all, state)
		}
	}
	return all
}

// Attach attaches a volume to a node with a publish context, as if a controller had called
// ControllerPublishVolume successfully.
func (d *Driver) Attach(volume, node string, publishContext map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.volume(volume).attached.at(node)
	at.inEffect, at.known, at.context = true, knownPresent, maps.Clone(publishContext)
}

// Detach detaches a volume from a node, as if a controller had called ControllerUnpublishVolume. It
// is a violation while the volume is in use on the node.
func (d *Driver) Detach(volume, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volume(volume)
	call := &Call{Method: ControllerUnpublishVolume, Request: &csipb.ControllerUnpublishVolumeRequest{VolumeId: volume, NodeId: node}}
	d.checkDetach(call, v, node)
	delete(v.attached, node)
}

// Reboot restarts the node: nothing is staged or published any more. The directories that the
// driver has created stay. Calls in progress end as by [Driver.Crash].
func (d *Driver) Reboot() error {
	d.Crash()
	d.mu.Lock()
	for _, v := range d.volumes {
		for _, places := range []places{v.staged, v.published} {
			for _, p := range places {
				p.inEffect, p.known, p.request = false, knownAbsent, nil
			}
		}
	}
	d.mu.Unlock()
	return d.Restart()
}
