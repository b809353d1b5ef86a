package provision_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
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
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const workingClass, brokenClass = "working", "broken"

// A kubeWorld is a real API server with a binder, users of claims, and a controller in a process of
// its own, whose storage is a directory for each volume.
type kubeWorld struct {
	ctx     context.Context
	cancel  context.CancelFunc
	server  *kubeserver.Server
	cluster api.Cluster
	root    string // of the storage
	claims  *api.Cache[*v1.PersistentVolumeClaim]
	volumes *api.Cache[*v1.PersistentVolume]
	done    atomic.Int64 // claims that users have made and used

	mu       sync.Mutex
	failures []string
}

// TestKubeKilledProvisioner: users make, use and delete 60 claims while the controller is killed 10
// times and the API server twice; with VOLUMEKIT_LONG 1,000 claims, and 100 and 10 kills. At each
// time the data of a volume in use exists, also after its claim was deleted by force. At the end each
// claim is bound or an event explains why not, each volume has a claim and a directory, and each
// directory a volume.
func TestKubeKilledProvisioner(t *testing.T) {
	limit := 5 * time.Minute
	if testbed.Long() {
		limit = time.Hour
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	w := &kubeWorld{ctx: ctx, cancel: cancel, server: kubeserver.Start(t), root: testbed.Dir(t)}
	w.cluster = kubeclient.New(connectKube(t, w.server.URL, w.server.Token, string(w.server.CA)))
	w.claims = api.NewCache(w.cluster.PersistentVolumeClaims(namespace), api.CacheConfig{})
	w.volumes = api.NewCache(w.cluster.PersistentVolumes(), api.CacheConfig{})
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	background.Go(func() { _ = w.claims.Run(ctx) })
	background.Go(func() { _ = w.volumes.Run(ctx) })
	background.Go(w.bind)
	w.createClasses()
	require.NoError(t, w.claims.WaitForSync(ctx))
	require.NoError(t, w.volumes.WaitForSync(ctx))

	users, each := testbed.UpTo(12, 50), testbed.UpTo(5, 20)
	users, each = max(users, 4), max(each, 4)
	var using sync.WaitGroup
	for n := range users {
		using.Go(func() { kubeUser{w, api.Key{Namespace: namespace, Name: fmt.Sprint("claim-", n)}}.useClaims(each) })
	}
	last := w.interfere(users*each, max(testbed.UpTo(10, 100), 2), max(testbed.UpTo(2, 10), 1))
	using.Wait()
	w.await("nothing is left over", func() bool { return len(w.differences(ctx)) == 0 })
	w.kill(last)
	if len(w.failures) > 0 {
		t.Errorf("%s\n%s\nthe controller's log:\n%s", w.failures[0], strings.Join(w.differences(t.Context()), "\n"), last.output.String())
	}
}

// fail ends the test.
func (w *kubeWorld) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
	w.cancel()
}

func (w *kubeWorld) createClasses() {
	for _, name := range []string{workingClass, brokenClass} {
		class := newClass(name)
		if name == brokenClass {
			class.Parameters = map[string]string{brokenParameter: "true"}
		}
		w.try("create class", func() error {
			_, err := w.cluster.StorageClasses().Create(w.ctx, class, metav1.CreateOptions{})
			return err
		})
	}
}

// bind does the work of the binder and of the protection controllers. It removes the finalizer of a
// claim that a pod uses, as users do by force.
func (w *kubeWorld) bind() {
	for w.ctx.Err() == nil {
		_ = bindAll(w.ctx, w.cluster) // the next turn repeats a failed write
		unprotect(w.ctx, w.cluster)
		_ = sleep(w.ctx, 20*time.Millisecond)
	}
}

// interfere kills the controller at random times, spread over the work of the users, and restarts it;
// likewise the API server, each second time with the controller. It returns the last process.
func (w *kubeWorld) interfere(claims, kills, restarts int) *kubeProcess {
	process := w.startProvisioner()
	for k := range kills {
		w.await(fmt.Sprintf("%d of %d kills", k, kills), func() bool { return int(w.done.Load()) >= k*claims/kills })
		_ = sleep(w.ctx, time.Duration(rand.IntN(300))*time.Millisecond)
		restartsServer := k*restarts/kills != (k+1)*restarts/kills
		if restartsServer {
			w.server.Kill()
		}
		if restartsServer && k%2 == 1 {
			w.restartServer()
		}
		if w.ctx.Err() != nil {
			break
		}
		w.kill(process)
		process = w.startProvisioner()
		if restartsServer && k%2 == 0 {
			w.restartServer()
		}
	}
	return process
}

func (w *kubeWorld) restartServer() {
	if err := w.server.Restart(w.ctx); err != nil {
		w.fail("restart the API server: %v", err)
	}
}

// differences returns the reasons why the work has not ended as required.
func (w *kubeWorld) differences(ctx context.Context) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	volumes, err := w.cluster.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return []string{err.Error()}
	}
	claims, err := w.cluster.PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return []string{err.Error()}
	}
	entries, err := os.ReadDir(w.root)
	if err != nil {
		return []string{err.Error()}
	}
	var wanted []string
	for _, claim := range claims.Items {
		isBroken := *claim.Spec.StorageClassName == brokenClass
		switch {
		case claim.DeletionTimestamp != nil:
			add("claim %s has not ended: %s", claim.Name, claim.Finalizers)
		case !isBroken && claim.Status.Phase != v1.ClaimBound:
			add("claim %s is not bound", claim.Name)
		case !isBroken:
			wanted = append(wanted, claim.Spec.VolumeName)
			if _, err := os.Stat(w.dataOf(claim.Spec.VolumeName)); err != nil {
				add("claim %s: %v", claim.Name, err)
			}
		}
	}
	var stored, directories []string
	for _, pv := range volumes.Items {
		stored = append(stored, pv.Name)
	}
	for _, entry := range entries {
		directories = append(directories, entry.Name())
	}
	for _, names := range [][]string{wanted, stored, directories} {
		slices.Sort(names)
	}
	if !slices.Equal(wanted, stored) || !slices.Equal(wanted, directories) {
		add("claims have the volumes\n%s\nthe API server has\n%s\nthe storage has\n%s", wanted, stored, directories)
	}
	return all
}
