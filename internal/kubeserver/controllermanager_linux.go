package kubeserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const managerKubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// StartControllerManager starts kube-controller-manager with some of its controllers, without limits of
// its calls and with more arguments, until stop is called, which returns its processor time. It waits for
// nothing: the controllers work once they have their caches.
func (s *Server) StartControllerManager(program string, controllers []string, args ...string) (stop func() time.Duration, err error) {
	dir, err := os.MkdirTemp(s.dir, controllerManager)
	if err != nil {
		return nil, err
	}
	kubeconfig, authority := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "ca.crt")
	text := fmt.Sprintf(managerKubeconfig, s.URL, authority, s.Token)
	if err := errors.Join(os.WriteFile(authority, s.CA, 0o600), os.WriteFile(kubeconfig, []byte(text), 0o600)); err != nil {
		return nil, err
	}
	p, err := startProcess(dir, program, append([]string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--controllers=" + strings.Join(controllers, ","),
		"--kube-api-qps=100000", "--kube-api-burst=100000",
	}, args...)...)
	if err != nil {
		return nil, err
	}
	return func() time.Duration {
		p.kill()
		return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	}, nil
}
