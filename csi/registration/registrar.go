package registration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
)

// Methods of the registration API.
const (
	getInfoMethod = "/pluginregistration.Registration/GetInfo"
	notifyMethod  = "/pluginregistration.Registration/NotifyRegistrationStatus"
)

// A registrar is the client of the registrar at one socket. Its life:
//
//	register -> write to the cluster -> report -> wait for the end of the socket -> withdraw
//
// A failed step is repeated after a pause. The driver's failures are reported, and lead back to
// register. The end of the socket ends each step.
type registrar struct {
	watcher *Watcher
	path    string
	age     uint64

	claim *registered // in the registry; nil: none
	// isUnreported: the registrar may not have received the result of the registration. Another process
	// may serve the socket by now, with another driver.
	isUnreported bool
	// unwritten is the name of a driver that has left the registry and may be in the cluster yet.
	unwritten string
}

// run registers the driver and unregisters it when ctx ends, the time of the socket. all is the time
// of Run: at its end the driver remains in the cluster.
func (r *registrar) run(ctx, all context.Context) {
	r.repeat(ctx, "registration of a driver failed", r.attempt)
	<-ctx.Done()
	if all.Err() == nil {
		r.withdraw()
		r.repeat(all, "removal of a driver from the cluster failed", r.writeRemoval)
	}
}

// repeat calls work until it succeeds or ctx ends.
func (r *registrar) repeat(ctx context.Context, failure string, work func(context.Context) error) {
	for failures := 1; ctx.Err() == nil; failures++ {
		err := work(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		pause := r.watcher.config.pause(failures)
		r.watcher.config.Logger.Warn(failure, "socket", r.path, "err", err, "retry", pause)
		_ = ctxend.Sleep(ctx, pause)
	}
}

// attempt brings the registration to its end: the driver is in the registry and in the cluster, and
// its registrar has the result.
func (r *registrar) attempt(ctx context.Context) error {
	if err := r.writeRemoval(ctx); err != nil { // of an earlier attempt, with another name perhaps
		return err
	}
	if r.claim == nil || r.isUnreported {
		var info registerapi.PluginInfo
		if err := r.call(ctx, getInfoMethod, &registerapi.InfoRequest{}, &info); err != nil {
			return err
		}
		if err := r.register(ctx, &info); err != nil {
			r.withdraw()
			return r.report(ctx, err)
		}
		if err := r.writeRemoval(ctx); err != nil { // of a driver with another name
			return err
		}
	}
	err := r.watcher.write(ctx, r.claim.Name)
	if err == nil {
		err = r.report(ctx, nil)
		r.isUnreported = err != nil
		return err
	}
	if kind := volume.KindOf(err); ctx.Err() != nil || kind == volume.Transient || kind == volume.Uncertain {
		return err // not the driver's fault
	}
	r.withdraw()
	return errors.Join(r.report(ctx, err), r.writeRemoval(ctx))
}

// call calls the registrar.
func (r *registrar) call(ctx context.Context, method string, request, answer any) error {
	conn, err := connection.Open(connection.Config{Endpoint: r.path, Timeout: r.watcher.config.Timeout})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.Invoke(ctx, method, request, answer)
}

// report reports the result of a registration to the registrar, and returns failure, the error of the
// registration. If that is nil it returns the error of the report, unless the registrar refuses
// reports.
func (r *registrar) report(ctx context.Context, failure error) error {
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	status := &registerapi.RegistrationStatus{PluginRegistered: failure == nil}
	if failure != nil {
		status.Error = brief.Text(failure.Error())
	}
	err := r.call(ctx, notifyMethod, status, &registerapi.RegistrationStatusResponse{})
	if failure == nil && err != nil && volume.KindOf(err) == volume.Final {
		r.watcher.config.Logger.Warn("the registrar of a driver refused the status of its registration", "socket", r.path, "err", err)
		return nil
	}
	return errors.Join(failure, err)
}

// register adds the driver of a registrar's answer to the registry, in place of the driver of an earlier
// answer.
func (r *registrar) register(ctx context.Context, info *registerapi.PluginInfo) error {
	c, err := checkInfo(info, r.path)
	if err != nil {
		return err
	}
	node, err := getNodeInfo(ctx, c)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	if r.claim != nil && r.claim.Name != c.name {
		r.withdraw()
	}
	r.claim = &registered{
		Driver: csi.Driver{Name: c.name, Endpoint: c.endpoint, NodeID: node.id}, node: node, age: r.age,
	}
	w := r.watcher
	w.registry.put(r.claim)
	w.config.Logger.Info("driver registered", "driver", c.name, "endpoint", c.endpoint, "socket", r.path)
	w.config.Changed(c.name)
	return nil
}

// getNodeInfo returns the answer of the driver at the endpoint to NodeGetInfo.
func getNodeInfo(ctx context.Context, c claim) (nodeInfo, error) {
	if err := checkIsSocket(ctx, c.endpoint); err != nil {
		return nodeInfo{}, err
	}
	conn, err := connection.Open(connection.Config{Endpoint: c.endpoint, Driver: c.name})
	if err != nil {
		return nodeInfo{}, err
	}
	defer func() { _ = conn.Close() }()
	answer, err := conn.Node().NodeGetInfo(ctx, &csipb.NodeGetInfoRequest{})
	if err != nil {
		return nodeInfo{}, err
	}
	return checkNodeInfo(answer)
}

// checkIsSocket returns an error for an endpoint that is no socket. It returns when ctx ends, also if
// the file system hangs.
func checkIsSocket(ctx context.Context, endpoint string) error {
	_, err := ctxend.Await(ctx, ctxend.Kernel, func() (struct{}, error) {
		info, err := os.Stat(endpoint)
		if err == nil && info.Mode().Type() != fs.ModeSocket {
			err = fmt.Errorf("endpoint %s: must be a socket", endpoint)
		}
		return struct{}{}, err
	}, nil)
	return brief.Of(err)
}

// withdraw removes the driver from the registry. writeRemoval removes it from the cluster.
func (r *registrar) withdraw() {
	if r.claim == nil {
		return
	}
	w := r.watcher
	r.unwritten = r.claim.Name
	w.registry.remove(r.claim)
	r.claim = nil
	w.config.Logger.Info("driver unregistered", "driver", r.unwritten, "socket", r.path)
	w.config.Changed(r.unwritten)
}

// writeRemoval writes the state of a withdrawn driver to the cluster, where another socket's driver of
// the name may take its place.
func (r *registrar) writeRemoval(ctx context.Context) error {
	if r.unwritten == "" {
		return nil
	}
	err := r.watcher.write(ctx, r.unwritten)
	if err == nil {
		r.unwritten = ""
	}
	return err
}

var errWriteTimeout = fmt.Errorf("the cluster did not respond in time: %w", context.DeadlineExceeded)

// write writes the registered state of a driver to the cluster: its effective claim, or none.
func (w *Watcher) write(ctx context.Context, name string) error {
	if w.config.Node == nil {
		return nil
	}
	unlock, err := w.writes.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, w.config.Timeout, errWriteTimeout)
	defer cancel()
	if c, ok := w.registry.effective(name); ok {
		err = w.config.Node.PutDriver(ctx, c.node.entry(name), c.node.topology)
	} else {
		err = w.config.Node.RemoveDriver(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("write driver %s to the cluster: %w", name, err)
	}
	return nil
}
