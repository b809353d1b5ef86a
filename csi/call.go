package csi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
)

// exclusively calls the driver as the only call in flight for the volume. An error before the call is
// transient.
func (p *Plugin) exclusively(ctx context.Context, driver, handle string, call func(ctx context.Context) error) error {
	if ctx.Err() != nil {
		return volume.AsTransient(ctxend.Error(ctx))
	}
	unlock, err := p.lockCalls(ctx, volumeName(driver, handle))
	if err != nil {
		return volume.AsTransient(fmt.Errorf("waiting for another call of driver %s for the volume: %w", driver, err))
	}
	defer unlock()
	return call(ctx)
}

// measurementPatience is how long a call that changes a volume waits for a measurement.
const measurementPatience = 5 * time.Second

// lockCalls waits until no other call is in flight for the volume. A measurement that takes too long is
// interrupted: a driver that hangs in one must not delay the end of a pod.
func (p *Plugin) lockCalls(ctx context.Context, volume string) (unlock func(), err error) {
	if unlock, ok := p.calls.TryLock(volume); ok {
		return unlock, nil
	}
	locked := make(chan struct{})
	defer close(locked)
	go p.interruptUntil(locked, volume)
	return p.calls.Lock(ctx, volume)
}

// interruptUntil interrupts each measurement that is in flight after a time of patience.
func (p *Plugin) interruptUntil(locked <-chan struct{}, volume string) {
	ticker := time.NewTicker(p.patience)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.measurements.interrupt(volume)
		case <-locked:
			return
		}
	}
}

// measurements are the calls that measure volumes, in flight and waiting. The zero value has none.
type measurements struct {
	turns keylock.Map // by volume: one call waits for the others of the volume

	mu      sync.Mutex // guards cancels
	cancels map[string]context.CancelFunc
}

// interrupt ends the measurement of a volume.
func (m *measurements) interrupt(volume string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cancel := m.cancels[volume]; cancel != nil {
		cancel()
	}
}

// begin returns the context of a measurement, which interrupt cancels, and a function to be called at its end.
// The caller holds the turn of the volume.
func (m *measurements) begin(ctx context.Context, volume string) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cancels == nil {
		m.cancels = map[string]context.CancelFunc{}
	}
	m.cancels[volume] = cancel
	return ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.cancels, volume)
		cancel()
	}
}

// measure calls the driver while no other call is in flight for the volume, until lockCalls interrupts it.
func (p *Plugin) measure(ctx context.Context, volume string, call func(ctx context.Context) error) error {
	next, err := p.measurements.turns.Lock(ctx, volume)
	if err != nil {
		return err
	}
	defer next()
	ctx, end := p.measurements.begin(ctx, volume)
	defer end()
	unlock, err := p.calls.Lock(ctx, volume)
	if err != nil {
		return err
	}
	defer unlock()
	return call(ctx)
}

// A harmlessError is the error of a call that changes no volume: it is transient, also if its outcome
// is unknown.
type harmlessError struct{ err error }

func (e *harmlessError) Error() string { return e.err.Error() }

// Is reports whether the error is transient, or wraps an error other than [volume.ErrUncertain].
func (e *harmlessError) Is(target error) bool {
	return target == volume.ErrTransient || target != volume.ErrUncertain && errors.Is(e.err, target)
}

// As finds errors that the error wraps.
func (e *harmlessError) As(target any) bool { return errors.As(e.err, target) }

// hasCode reports whether a driver has answered with a code.
func hasCode(err error, code codes.Code) bool {
	var call *connection.CallError
	return errors.As(err, &call) && call.Code == code
}

// upError returns the error of a call that stages or publishes a volume. A volume that is up with other
// arguments is volume.ErrAlreadyMounted.
func upError(err error) error {
	if volume.KindOf(err) == volume.Final && hasCode(err, codes.AlreadyExists) {
		return fmt.Errorf("%w: %w", volume.ErrAlreadyMounted, err)
	}
	return err
}

// downError returns the error of a call that unstages or unpublishes a volume: it is transient unless
// it is uncertain, since the caller repeats the call until it succeeds.
func downError(err error) error {
	if volume.KindOf(err) == volume.Final {
		return volume.AsTransient(err)
	}
	return err
}
