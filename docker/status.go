package docker

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// get implements Get. An unknown name is an error: the daemon queries all drivers for a name, and takes the volume of
// the first that has it.
func (d *driver) get(ctx context.Context, q request) (response, error) {
	is, err := d.known(q.Name)
	if err != nil {
		return response{}, err
	}
	info := d.describe(is)
	maps.Copy(info.Status, d.measurement(ctx, is))
	return response{Volume: &info}, nil
}

// list implements List, without measurements.
func (d *driver) list(context.Context, request) (response, error) {
	var answer response
	for _, is := range d.store.all() {
		answer.Volumes = append(answer.Volumes, d.describe(is))
	}
	return answer, nil
}

// pathOf implements Path. A volume that is not mounted has none.
func (d *driver) pathOf(_ context.Context, q request) (response, error) {
	is, err := d.known(q.Name)
	if err != nil {
		return response{}, err
	}
	return response{Mountpoint: d.mountpoint(is)}, nil
}

// known returns a volume, and waits for no other call.
func (d *driver) known(name string) (known, error) {
	if err := checkName(name); err != nil {
		return known{}, err
	}
	rec, use, ok, err := d.store.get(name)
	if err == nil && !ok {
		err = errNoVolume
	}
	if err != nil {
		return known{}, fmt.Errorf("volume %s: %w", name, err)
	}
	return known{rec, use}, nil
}

// mountpoint returns the path of a volume that has users, or "".
func (d *driver) mountpoint(is known) string {
	if len(is.usage.Users) > 0 {
		return d.path(is.Name)
	}
	return ""
}

// describe returns the contents of the records for the daemon.
func (d *driver) describe(is known) volumeInfo {
	status := map[string]any{"users": len(is.usage.Users)}
	if is.State != ready {
		status["state"] = string(is.State)
	}
	if is.Volume != nil {
		if size, ok := is.Volume.Spec.Capacity[v1.ResourceStorage]; ok && quantity.Check(&size) == nil {
			status["size"] = size.String()
		}
	}
	if failure := d.store.failureOf(is.Name); failure != "" {
		status["error"] = failure
	}
	return volumeInfo{Name: is.Name, Mountpoint: d.mountpoint(is), CreatedAt: is.Created.Format(time.RFC3339), Status: status}
}

// Times of measurements.
const (
	measureTime = 10 * time.Second       // for one
	patience    = 100 * time.Millisecond // for which Get waits for one
	freshness   = 10 * time.Second       // for which one is shown
)

// measurements are the last measurements of volumes, and those in flight: one for each volume.
type measurements struct {
	mu sync.Mutex
	by map[string]*measurementOf
}

type measurementOf struct {
	done   chan struct{} // closed at the end of the measurement
	ended  time.Time     // zero: in flight
	isOld  bool          // of an earlier mount
	status map[string]any
}

// measurement returns the use of a mounted volume: of the last seconds, or nothing if its file system does not answer
// soon.
func (d *driver) measurement(ctx context.Context, is known) map[string]any {
	if d.mountpoint(is) == "" {
		return nil
	}
	m := d.measured.latest(is.Name, func() (status map[string]any) {
		_ = d.guarded(is.record, func() error { status = d.measure(is.Name); return nil })
		return status
	})
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-m.done:
		return m.status
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// latest returns the measurement of a volume in flight, or one that is fresh, or starts one.
func (m *measurements) latest(name string, measure func() map[string]any) *measurementOf {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.by[name]; have != nil && (have.ended.IsZero() || time.Since(have.ended) < freshness && !have.isOld) {
		return have
	}
	next := &measurementOf{done: make(chan struct{})}
	m.by[name] = next
	go func() {
		status := measure() // nil after a panic
		m.mu.Lock()
		defer m.mu.Unlock()
		next.status, next.ended = status, time.Now()
		close(next.done)
	}()
	return next
}

// forget drops the measurement of a volume that is not mounted any more.
func (m *measurements) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.by[name]
	switch {
	case have == nil:
	case have.ended.IsZero(): // one is in flight at a time
		have.isOld = true
	default:
		delete(m.by, name)
	}
}

func (d *driver) measure(name string) map[string]any {
	ctx, cancel := context.WithTimeout(context.Background(), measureTime)
	defer cancel()
	unmounter, err := d.paths.NewUnmounterAt(d.path(name))
	if err != nil {
		return nil
	}
	m, err := unmounter.GetMetrics(ctx)
	if err != nil {
		return nil
	}
	return statusOf(m)
}

func statusOf(m *volume.Metrics) map[string]any {
	status := map[string]any{}
	for key, q := range map[string]*resource.Quantity{"capacity": m.Capacity, "used": m.Used, "available": m.Available} {
		if q != nil {
			status[key] = q.Value()
		}
	}
	return status
}
