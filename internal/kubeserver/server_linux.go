package kubeserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// A Server is a kube-apiserver with its etcd. Its methods must not be called concurrently.
type Server struct {
	// URL is the address of the API server, https://ADDRESS:PORT with a random loopback address. It
	// is the same after a restart.
	URL string
	// CA is the certificate authority that signs the serving certificate, as PEM.
	CA []byte
	// Token is the bearer token of a user in the group system:masters.
	Token string

	dir       string
	programs  Programs
	address   net.IP
	authority *authority
	client    *http.Client
	etcdURL   string
	etcd      *Process
	api       *Process
}

// adminToken is no secret: the server listens on loopback for the time of a test.
const adminToken = "admin"

// Run starts a server for a program that is no test, such as a benchmark, with its files in dir, and
// returns once the server is ready. The program calls Stop. Run fails if ctx ends first; later the end
// of ctx has no effect. If the cache lacks the programs (see [Fetch]) the error wraps fs.ErrNotExist.
func Run(ctx context.Context, dir string) (*Server, error) {
	programs, err := Find()
	if err != nil {
		return nil, err
	}
	return run(ctx, programs, dir)
}

// run starts etcd and the API server with their files in dir and returns once the server is
// ready. If it fails, both processes have ended.
func run(ctx context.Context, programs Programs, dir string) (*Server, error) {
	address := newAddress()
	hosts, err := freePorts(address, 3)
	if err != nil {
		return nil, err
	}
	s := &Server{
		URL: "https://" + hosts[0], Token: adminToken,
		dir: dir, programs: programs, address: address, etcdURL: "http://" + hosts[1],
	}
	if s.authority, err = newAuthority(); err != nil {
		return nil, err
	}
	s.CA = s.authority.pem()
	pool := x509.NewCertPool()
	pool.AddCert(s.authority.certificate)
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	if err := s.writeFiles(); err != nil {
		return nil, err
	}
	peer := "http://" + hosts[2]
	s.etcd, err = StartProcess(dir, programs.Etcd, "--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", s.etcdURL, "--advertise-client-urls", s.etcdURL,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--unsafe-no-fsync") // the machine's crash would end the test, too
	if err != nil {
		return nil, err
	}
	if err = s.await(ctx, s.etcd, s.etcdURL+"/health"); err == nil {
		err = s.Restart(ctx)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// writeFiles writes the certificate, the keys and the token file of the server.
func (s *Server) writeFiles() error {
	if err := s.IssueCertificate(time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)); err != nil {
		return err
	}
	if err := writeAccountKey(s.dir); err != nil {
		return err
	}
	line := adminToken + ",admin,admin,system:masters\n"
	return os.WriteFile(filepath.Join(s.dir, tokenFile), []byte(line), 0o600)
}

// IssueCertificate replaces the serving certificate by one that is valid between the two times. A
// running server presents it within a minute, a restarted one at once.
func (s *Server) IssueCertificate(from, until time.Time) error {
	return s.authority.issue(s.dir, s.address, from, until)
}

// Kill ends the API server by SIGKILL and waits for its end. etcd runs on and keeps the objects.
func (s *Server) Kill() { s.api.Kill() }

// Restart kills the API server if it runs, starts it, and returns once it is ready. It fails if the
// server ends, or ctx ends, before the server is ready. The end of ctx does not end the server.
func (s *Server) Restart(ctx context.Context) (err error) {
	s.Kill()
	_, port, err := net.SplitHostPort(s.URL[len("https://"):])
	if err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(s.dir, name) }
	s.api, err = StartProcess(s.dir, s.programs.APIServer,
		"--etcd-servers="+s.etcdURL, "--bind-address="+s.address.String(), "--secure-port="+port, "--advertise-address="+s.address.String(),
		"--tls-cert-file="+file(servingCertificateFile), "--tls-private-key-file="+file(servingKeyFile),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+file(accountKeyFile), "--service-account-signing-key-file="+file(accountKeyFile),
		"--token-auth-file="+file(tokenFile), "--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
		"--allow-privileged",                         // pods of drivers are privileged
		"--disable-admission-plugins=ServiceAccount", // pods need no account that a controller would have to create
		"--enable-priority-and-fairness=false")
	if err != nil {
		return err
	}
	return s.await(ctx, s.api, s.URL+"/readyz")
}

// Compact makes etcd drop all revisions but the newest. A watch or a list from an older resource
// version fails with 410 Gone once the API server's own cache has dropped that version, too.
// Compact returns the error of etcd or of ctx.
func (s *Server) Compact(ctx context.Context) error {
	var status struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := s.post(ctx, "/v3/maintenance/status", struct{}{}, &status); err != nil {
		return err
	}
	return s.post(ctx, "/v3/kv/compaction", map[string]string{"revision": status.Header.Revision}, nil)
}

// post sends a request to etcd's JSON gateway and decodes the response into answer, unless it is
// nil.
func (s *Server) post(ctx context.Context, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, s.etcdURL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := s.client.Do(call)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd %s: %s: %s", path, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// await returns nil once a GET of the URL succeeds. It returns an error with the end of the
// process's log if the process ends, or ctx ends, first.
func (s *Server) await(ctx context.Context, p *Process, url string) error {
	for {
		if s.succeeds(ctx, url) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", p.name, ctx.Err(), p.LastMessages())
		case <-p.Ended:
			return fmt.Errorf("%s has ended: %v: %s", p.name, p.cmd.ProcessState, p.LastMessages())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// succeeds reports whether a GET of the URL returns the status 200 within ten seconds.
func (s *Server) succeeds(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+s.Token)
	response, err := s.client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Stop ends both processes.
func (s *Server) Stop() {
	s.api.Kill()
	s.etcd.Kill()
	s.client.CloseIdleConnections()
}

// newAddress returns a random address of the loopback network. On a shared address another server
// could listen on a free port before the program that it was chosen for, and use the wrong etcd.
func newAddress() net.IP {
	return net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(256)), byte(1+rand.IntN(254)))
}

// freePorts returns n different ports of the address, as ADDRESS:PORT, on which no program listens.
func freePorts(address net.IP, n int) ([]string, error) {
	var hosts []string
	for range n {
		listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: address})
		if err != nil {
			return nil, err
		}
		// All listeners stay open until all ports are found, so that the ports differ.
		defer func() { _ = listener.Close() }()
		hosts = append(hosts, listener.Addr().String())
	}
	return hosts, nil
}
