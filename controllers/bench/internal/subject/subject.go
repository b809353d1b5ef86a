// Package subject runs a provisioner's controller in a process of its own, as a benchmark measures it.
package subject

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/volumekit/volumekit/internal/apicalls"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Provisioner is the name of the provisioner.
const Provisioner = "example.com/bench"

// A Config configures the process of a subject.
type Config struct {
	URL, Token string
	CA         []byte
	// Calls is the number of calls of the storage at the same time. 0: the default of the subject.
	Calls int
	// Unguarded omits our finalizers.
	Unguarded bool
	// Binds runs our binder instead of our provisioner.
	Binds   bool
	Storage Storage
}

// A Report is the output of the process of a subject.
type Report struct{ Calls []apicalls.Call }

// Variable has the Config as JSON in the environment of the process.
const Variable = "VOLUMEKIT_BENCH_PROVISIONER"

// Main prints a line, runs a controller from the first line of the standard input to its end, and prints
// the Report as JSON.
func Main(run func(context.Context, Config, *kubernetes.Clientset) error) error {
	var c Config
	if err := json.Unmarshal([]byte(os.Getenv(Variable)), &c); err != nil {
		return fmt.Errorf("%s: %w", Variable, err)
	}
	var calls apicalls.Recorder
	clientset, err := Connect(c, calls.Wrap)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	input := bufio.NewReader(os.Stdin)
	if _, err := input.ReadString('\n'); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c, clientset) }()
	_, _ = input.ReadString('\n')
	report := Report{calls.Take()}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// Connect returns a client without a limit of its calls, which encodes objects as protobuf.
func Connect(c Config, wrap func(http.RoundTripper) http.RoundTripper) (*kubernetes.Clientset, error) {
	const protobuf = "application/vnd.kubernetes.protobuf"
	return kubernetes.NewForConfig(&rest.Config{
		Host: c.URL, BearerToken: c.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.CA}, WrapTransport: wrap,
		ContentConfig: rest.ContentConfig{ContentType: protobuf, AcceptContentTypes: protobuf + ",application/json"},
	})
}

// A Storage has volumes without data. Each call takes a time, and some calls fail without an effect.
type Storage struct {
	Delay    time.Duration
	Failures float64 // the share of the calls that fail
}

// Call makes one call.
func (s Storage) Call() error {
	time.Sleep(s.Delay)
	if rand.Float64() < s.Failures {
		return errors.New("the storage fails, as configured")
	}
	return nil
}

// Source returns the source of a volume.
func Source(name string) v1.PersistentVolumeSource {
	return v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "server.example", Path: "/" + name}}
}
