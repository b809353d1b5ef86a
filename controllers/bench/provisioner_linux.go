package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/controllers/bench/internal/subject"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/apicalls"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// isProvisioner runs our controller in a process that startProvisioner has started, and reports whether
// this process is one.
func isProvisioner() bool {
	if _, ok := os.LookupEnv(subject.Variable); !ok {
		return false
	}
	if err := subject.Main(runController); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	return true
}

// runController runs our controller until ctx ends.
func runController(ctx context.Context, c subject.Config, clientset *kubernetes.Clientset) error {
	if c.Binds {
		return runBinder(ctx, clientset)
	}
	controller, err := provision.New(provision.Config{
		Name: subject.Provisioner, Provisioner: fakeStorage{c.Storage}, Cluster: kubeclient.New(clientset),
		Calls: c.Calls, UnguardedClaims: c.Unguarded, UnguardedVolumes: c.Unguarded,
		Events: kubeclient.Events(kubeclient.NewRecorder(ctx, clientset, v1.EventSource{Component: subject.Provisioner})),
	})
	if err != nil {
		return err
	}
	return controller.Run(ctx)
}

// runBinder runs our binder until ctx ends.
func runBinder(ctx context.Context, clientset *kubernetes.Clientset) error {
	controller, err := bind.New(bind.Config{
		Cluster: kubeclient.New(clientset),
		Events:  kubeclient.Events(kubeclient.NewRecorder(ctx, clientset, v1.EventSource{Component: "binder"})),
	})
	if err != nil {
		return err
	}
	return controller.Run(ctx)
}

type fakeStorage struct{ subject.Storage }

func (s fakeStorage) Provision(_ context.Context, o provision.Options) (*v1.PersistentVolume, error) {
	pv := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: subject.Source(o.PVName)}}
	return pv, s.Call()
}

func (s fakeStorage) Delete(context.Context, *v1.PersistentVolume) error {
	if err := s.Call(); err != nil {
		return volume.AsTransient(err)
	}
	return nil
}

// A provisioner is the process of a subject.
type provisioner struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
}

// A usage is the API calls, the processor time and the memory of the process of a subject.
type usage struct {
	calls  []apicalls.Call
	cpu    time.Duration
	memory int64 // the largest resident set, in bytes
}

// startProvisioner starts a program, which waits for begin.
func startProvisioner(program string, c subject.Config) (*provisioner, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p := &provisioner{cmd: exec.Command(program)}
	p.cmd.Env = append(os.Environ(), subject.Variable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.output = bufio.NewReader(output)
	if _, err := p.output.ReadString('\n'); err != nil {
		p.kill()
		return nil, fmt.Errorf("start the provisioner: %w", err)
	}
	return p, nil
}

// begin starts the controller.
func (p *provisioner) begin() error {
	_, err := io.WriteString(p.input, "begin\n")
	return err
}

// kill ends the process at once.
func (p *provisioner) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// stop ends the process. A process that has ended before is an error.
func (p *provisioner) stop() (u usage, err error) {
	closed := p.input.Close()
	var report subject.Report
	decoded := json.NewDecoder(p.output).Decode(&report)
	if err := errors.Join(p.cmd.Wait(), closed, decoded); err != nil {
		return u, fmt.Errorf("the provisioner: %w", err)
	}
	u.calls, u.cpu = report.Calls, p.cmd.ProcessState.UserTime()+p.cmd.ProcessState.SystemTime()
	if r, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.memory = r.Maxrss << 10
	}
	return u, nil
}
