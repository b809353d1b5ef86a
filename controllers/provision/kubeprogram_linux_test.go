package provision_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){"provisioner": runProvisioner})
}

// connectKube returns a client of an API server without a limit of its calls.
func connectKube(t require.TestingT, url, token, authority string) *kubernetes.Clientset {
	clientset, err := kubernetes.NewForConfig(&rest.Config{
		Host: url, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(authority)},
	})
	require.NoError(t, err)
	return clientset
}

// runProvisioner is a program: a controller with directories as its storage, until the standard input
// ends. The arguments are the URL, the token and the certificate authority of the API server, and the
// directory of the storage.
func runProvisioner(p mounttest.Process) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	clientset := connectKube(p, p.Args[0], p.Args[1], p.Args[2])
	events := record.NewBroadcasterForTests(2 * time.Second) // between the attempts to write an event
	events.StartRecordingToSink(&corev1.EventSinkImpl{Interface: clientset.CoreV1().Events("")})
	controller, err := provision.New(provision.Config{
		Name: driver, Provisioner: diskStorage{p.Args[3]}, Cluster: kubeclient.New(clientset),
		Backoff: 20 * time.Millisecond, MaxBackoff: time.Second, InfeasibleBackoff: time.Second,
		Events: kubeclient.Events(events.NewRecorder(scheme.Scheme, v1.EventSource{Component: driver})),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	require.NoError(p, err)
	require.NoError(p, controller.Run(ctx))
}

// A diskStorage has a directory for each volume. Some calls fail, before or after their
// effect.
type diskStorage struct{ root string }

// brokenParameter is a parameter of classes that the storage refuses.
const brokenParameter = "broken"

func (d diskStorage) Provision(ctx context.Context, o provision.Options) (*v1.PersistentVolume, error) {
	if _, isBroken := o.StorageClass.Parameters[brokenParameter]; isBroken {
		return nil, fmt.Errorf("parameter %q: %w", brokenParameter, volume.ErrInfeasible)
	}
	dir := filepath.Join(d.root, o.PVName)
	err := d.do(ctx, func() error {
		_, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) && rand.IntN(30) == 0 {
			return errSim // final: nothing exists
		}
		return os.MkdirAll(dir, 0o755)
	})
	if err != nil {
		return nil, err
	}
	pv := &v1.PersistentVolume{}
	pv.Spec.NFS = &v1.NFSVolumeSource{Server: "server", Path: "/" + o.PVName}
	return pv, nil
}

func (d diskStorage) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	return d.do(ctx, func() error { return os.RemoveAll(filepath.Join(d.root, pv.Name)) })
}

// do makes a call with a pause before and after its effect, in which a kill can come.
func (diskStorage) do(ctx context.Context, effect func() error) error {
	pause := func() error { return sleep(ctx, time.Duration(rand.IntN(20))*time.Millisecond) }
	if err := pause(); err != nil {
		return volume.AsTransient(err)
	}
	switch rand.IntN(30) {
	case 0:
		return volume.AsTransient(errSim)
	case 1:
		return volume.AsUncertain(errSim)
	}
	if err := effect(); err != nil {
		return err
	}
	if err := pause(); err != nil || rand.IntN(30) == 0 {
		return volume.AsUncertain(errSim)
	}
	return nil
}

// A kubeProcess is a process of the program provisioner.
type kubeProcess struct {
	cmd    *exec.Cmd
	output bytes.Buffer // complete when ended is closed
	ended  chan struct{}
}

// startProvisioner starts the program, which ends with the test.
func (w *kubeWorld) startProvisioner() *kubeProcess {
	p := &kubeProcess{ended: make(chan struct{})}
	p.cmd = mounttest.Program("provisioner", w.server.URL, w.server.Token, string(w.server.CA), w.root)
	p.cmd.Stderr = &p.output
	input, err := p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		w.fail("start the controller: %v", err)
		close(p.ended)
		return p
	}
	go func() {
		_ = p.cmd.Wait()
		_ = input.Close()
		close(p.ended)
	}()
	return p
}

// kill kills the process, which must run.
func (w *kubeWorld) kill(p *kubeProcess) {
	select {
	case <-p.ended:
		w.fail("the controller has ended: %v\n%s", p.cmd.ProcessState, p.output.String())
		return
	default:
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
}
