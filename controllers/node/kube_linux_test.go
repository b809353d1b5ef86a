package node_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/testbed"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A kubeCounter records the requests of a program, apart from watches, and counts the certificates that it refuses.
type kubeCounter struct {
	http.RoundTripper
	requests *kubeRequests
	refused  *atomic.Int64
}

type kubeRequests struct {
	mu   sync.Mutex
	made []string
}

func (r *kubeRequests) add(request string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made = append(r.made, request)
}

// after returns the requests after the first n.
func (r *kubeRequests) after(n int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.made[n:])
}

func (c kubeCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.RawQuery, "watch=true") {
		c.requests.add(r.Method + " " + r.URL.RequestURI())
	}
	response, err := c.RoundTripper.RoundTrip(r)
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		c.refused.Add(1)
	}
	return response, err
}

// requireEnd requires that an idle program makes no requests for 10 s. A minute before, it may: a watch that has ended
// with the API server lists again after a pause, which is 30 s at most in client-go.
func (r *kubeRequests) requireEnd(t *testing.T) {
	t.Helper()
	var last []string
	for range 6 {
		before := len(r.after(0))
		time.Sleep(10 * time.Second)
		if last = r.after(before); len(last) == 0 {
			return
		}
	}
	require.Empty(t, last, "requests of an idle program, apart from watches")
}

// TestKubeFaults runs the steps of the simulation on a real API server, which is killed and restarted
// while pods come and go: 5 times, and 50 times with VOLUMEKIT_LONG. etcd is compacted, the serving
// certificate expires for a while, and the program restarts. The kernel is one in memory. The checks are
// those of the simulation.
func TestKubeFaults(t *testing.T) {
	server := kubeserver.Start(t)
	var requests kubeRequests
	var refused atomic.Int64
	connect := func() api.Cluster {
		clientset, err := kubernetes.NewForConfig(&rest.Config{
			Host: server.URL, BearerToken: server.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: server.CA},
			WrapTransport: func(base http.RoundTripper) http.RoundTripper { return kubeCounter{base, &requests, &refused} },
		})
		require.NoError(t, err)
		return kubeclient.New(clientset)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newSimulation(ctx, 1, connect(), testbed.Dir(t))
	s.connect = connect
	go s.controller.run(ctx)
	s.node.start(s.connect())
	defer func() { s.node.crash() }()
	for round := range testbed.UpTo(5, 50) {
		s.log("round %d", round)
		s.changeCluster(8)
		if round%3 == 1 {
			s.node.crash()
			s.node.start(s.connect())
		}
		s.check()
		if round%2 == 1 {
			require.NoError(t, server.Compact(ctx))
		}
		server.Kill()
		s.endSomeContainers()
		s.check()
		if round%5 == 2 {
			expireCertificate(t, server, &refused)
			s.check()
		}
		require.NoError(t, server.Restart(ctx))
		s.requireNoFailure(t)
	}
	s.endFaults()
	s.settle(s.differences)
	s.requireNoFailure(t)
	requests.requireEnd(t)
	s.endPods()
	s.settle(s.differences)
	s.checkDisks()
	s.checkRestart()
	s.requireNoFailure(t)
}

func (s *simulation) requireNoFailure(t *testing.T) {
	t.Helper()
	if s.hasFailed() {
		t.Fatalf("%s\nthe last of the trace:\n%s", s.failures[0], strings.Join(s.trace[max(0, len(s.trace)-80):], "\n"))
	}
}

// changeCluster does steps that need no fault and no synthetic time.
func (s *simulation) changeCluster(steps int) {
	for range steps {
		[]func(*simulation){
			(*simulation).addPod, (*simulation).addPod, (*simulation).deletePod, (*simulation).failPod, (*simulation).completePod,
			(*simulation).endPod, (*simulation).addClaim, (*simulation).bindClaim, (*simulation).deleteClaim, (*simulation).removeClaims,
			(*simulation).changeContent, (*simulation).changeContent, (*simulation).expandClaim, (*simulation).expandClaim,
		}[s.IntN(14)](s)
		s.check()
	}
}

// endSomeContainers ends the containers of deleted and finished pods, without the API server.
func (s *simulation) endSomeContainers() {
	for _, p := range s.pods {
		if p.containers && (p.deleted || p.finished && p.DeletionTimestamp == nil) && s.IntN(2) == 0 {
			s.log("the containers of %s end", p.Name)
			s.endContainers(p)
		}
	}
}

// expireCertificate lets the server run with an expired certificate until the program has refused it.
func expireCertificate(t *testing.T, server *kubeserver.Server, refused *atomic.Int64) {
	t.Helper()
	now := time.Now()
	require.NoError(t, server.IssueCertificate(now.Add(-2*time.Hour), now.Add(-time.Hour)))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	before := refused.Load()
	started := make(chan error, 1)
	go func() { started <- server.Restart(ctx) }()
	require.Eventually(t, func() bool { return refused.Load() > before }, 3*time.Minute, 10*time.Millisecond)
	cancel()
	require.Error(t, <-started, "the client of kubeserver refuses the certificate, too")
	require.NoError(t, server.IssueCertificate(now.Add(-time.Hour), now.Add(24*time.Hour)))
}
