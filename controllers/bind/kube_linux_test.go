package bind_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){"binder": runBinder})
}

func connectKube(t require.TestingT, url, token, authority string) api.Cluster {
	clientset, err := kubernetes.NewForConfig(&rest.Config{
		Host: url, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(authority)},
	})
	require.NoError(t, err)
	return kubeclient.New(clientset)
}

// runBinder is a program: a binder until the standard input ends. The arguments are the URL, the token and
// the certificate authority of the API server.
func runBinder(p mounttest.Process) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	controller, err := bind.New(bind.Config{
		Cluster: connectKube(p, p.Args[0], p.Args[1], p.Args[2]), Backoff: 20 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	require.NoError(p, err)
	require.NoError(p, controller.Run(ctx))
}

// A pairing records who was bound to what, from all changes of the claims and the volumes.
type pairing struct {
	mu       sync.Mutex
	volumes  map[types.UID]string // of the claims
	claims   map[string]types.UID // that name the volumes
	bound    map[string]types.UID // references of the volumes that were Bound
	done     int                  // claims that name a volume
	failures []string
}

// TestKubeKilledBinder: a binder is killed 5 times while it binds 100 pairs, and with VOLUMEKIT_LONG 100
// times while it binds 5,000. No claim names two volumes, no two claims name one volume, and no volume is
// Bound to two claims, at any time. At the end all are bound.
func TestKubeKilledBinder(t *testing.T) {
	limit, pairs, kills := 5*time.Minute, 100, 5
	if testbed.Long() {
		limit, pairs, kills = time.Hour, 5000, 100
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s := kubeserver.Start(t)
	cluster := connectKube(t, s.URL, s.Token, string(s.CA))
	p := &pairing{volumes: map[types.UID]string{}, claims: map[string]types.UID{}, bound: map[string]types.UID{}}
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	background.Go(func() { p.follow(ctx, cluster.PersistentVolumeClaims("").Watch) })
	background.Go(func() { p.follow(ctx, cluster.PersistentVolumes().Watch) })
	background.Go(func() { p.create(ctx, cluster, pairs) })

	for k := range kills {
		binder := startBinder(t, s)
		p.await(ctx, t, k*pairs/kills)
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		require.NoError(t, binder.Process.Kill())
		require.Error(t, binder.Wait())
		require.Equal(t, -1, binder.ProcessState.ExitCode(), "the binder has ended before it was killed")
	}
	startBinder(t, s)
	p.await(ctx, t, pairs)
	require.Eventually(t, func() bool { return isPaired(ctx, t, cluster, pairs) }, limit, 100*time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.failures)
}

// startBinder starts a process of the program binder, which ends with the test.
func startBinder(t *testing.T, s *kubeserver.Server) *exec.Cmd {
	cmd := mounttest.Program("binder", s.URL, s.Token, string(s.CA))
	cmd.Stderr = t.Output()
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// create creates the pairs, a volume and a claim in turns.
func (p *pairing) create(ctx context.Context, cluster api.Cluster, pairs int) {
	for n := range pairs {
		pv, claim := newVolume(fmt.Sprint("pv-", n), "1Gi"), newClaim(fmt.Sprint("claim-", n), "1Gi")
		claim.Namespace = metav1.NamespaceDefault
		_, err := cluster.PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
		p.require(ctx, err)
		_, err = cluster.PersistentVolumeClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{})
		p.require(ctx, err)
	}
}

// require records an error before the end of the test.
func (p *pairing) require(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.failures = append(p.failures, err.Error())
	}
}

// await waits until so many claims name a volume.
func (p *pairing) await(ctx context.Context, t *testing.T, claims int) {
	for {
		p.mu.Lock()
		done, failures := p.done, p.failures
		p.mu.Unlock()
		require.Empty(t, failures)
		if done >= claims {
			return
		}
		require.NoError(t, ctx.Err(), "%d claims name a volume", done)
		time.Sleep(5 * time.Millisecond)
	}
}

// follow records all changes of a kind of objects.
func (p *pairing) follow(ctx context.Context, start func(context.Context, metav1.ListOptions) (watch.Interface, error)) {
	version := "0"
	for ctx.Err() == nil {
		watcher, err := start(ctx, metav1.ListOptions{ResourceVersion: version})
		p.require(ctx, err)
		if err != nil {
			return
		}
		for event := range watcher.ResultChan() {
			if object, err := meta.Accessor(event.Object); err == nil {
				version = object.GetResourceVersion()
			}
			p.record(event)
		}
		watcher.Stop()
	}
}

// record records an event, and a failure if a claim or a volume was bound before to another one.
func (p *pairing) record(event watch.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	differ := func(format string, args ...any) { p.failures = append(p.failures, fmt.Sprintf(format, args...)) }
	switch o := event.Object.(type) {
	case *v1.PersistentVolumeClaim:
		before, isNamed := p.volumes[o.UID]
		switch name := o.Spec.VolumeName; {
		case isNamed && name != before:
			differ("claim %s names %q after %q", o.Name, name, before)
		case name != "" && !isNamed:
			if other, isTaken := p.claims[name]; isTaken {
				differ("claims %s and %s name %s", o.UID, other, name)
			}
			p.volumes[o.UID], p.claims[name] = name, o.UID
			p.done++
		}
	case *v1.PersistentVolume:
		var reference types.UID
		if o.Spec.ClaimRef != nil {
			reference = o.Spec.ClaimRef.UID
		}
		before, wasBound := p.bound[o.Name]
		switch {
		case wasBound && (reference != before || o.Status.Phase != v1.VolumeBound):
			differ("volume %s is %s to %q after it was bound to %s", o.Name, o.Status.Phase, reference, before)
		case o.Status.Phase == v1.VolumeBound:
			p.bound[o.Name] = reference
		}
	default:
		differ("%s: %v", event.Type, event.Object)
	}
}

// isPaired reports whether all claims and volumes are bound to each other.
func isPaired(ctx context.Context, t *testing.T, cluster api.Cluster, pairs int) bool {
	claims, err := cluster.PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	volumes, err := cluster.PersistentVolumes().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	partners := map[types.UID]string{}
	for _, pv := range volumes.Items {
		if pv.Spec.ClaimRef != nil && pv.Status.Phase == v1.VolumeBound {
			partners[pv.Spec.ClaimRef.UID] = pv.Name
		}
	}
	paired := 0
	for _, claim := range claims.Items {
		if claim.Status.Phase == v1.ClaimBound && claim.Spec.VolumeName != "" && partners[claim.UID] == claim.Spec.VolumeName {
			paired++
		}
	}
	return paired == pairs && len(claims.Items) == pairs && len(volumes.Items) == pairs && len(partners) == pairs
}
