package bind_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const pluginName = "kubernetes.io/sim"

// A simPlugin provisions, deletes and recycles NFS volumes in memory. Its storage outlives the
// controllers.
type simPlugin struct {
	volume.VolumePlugin // nil: no pod is set up
	// check is called at the begin of each deletion and recycling, and checkEffect when a recycling
	// removes files. The zero functions of newSimPlugin do nothing.
	check       func(verb, name string)
	checkEffect func(*simRecycling)

	mu        sync.Mutex
	rand      *rand.Rand
	isHealthy bool
	storage   map[string]bool      // by the names of provisioned volumes
	used      map[string]types.UID // the claims whose pods have used volumes since the last recycling
	calls     []string
	running   []*simRecycling
}

// A simRecycling removes the files of a volume. It goes on after a call with an open outcome.
type simRecycling struct {
	name   string
	volume types.UID
	later  *time.Timer // the end, after the call
}

func newSimPlugin(seed uint64) *simPlugin {
	return &simPlugin{
		rand: rand.New(rand.NewPCG(seed, 2)), storage: map[string]bool{}, used: map[string]types.UID{},
		check: func(string, string) {}, checkEffect: func(*simRecycling) {},
	}
}

// plugins returns a register with the plugin.
func (p *simPlugin) plugins(ctx context.Context) (*volume.VolumePluginMgr, error) {
	return volume.NewVolumePluginMgr(ctx, noHost{}, p)
}

// noHost is the host of a plugin that mounts nothing.
type noHost struct{ volume.VolumeHost }

func (p *simPlugin) Init(context.Context, volume.VolumeHost) error { return nil }
func (p *simPlugin) GetPluginName() string                         { return pluginName }
func (p *simPlugin) CanSupport(spec *volume.Spec) bool {
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.NFS != nil
}

type simCall struct {
	*simPlugin
	name string
}

func (p *simPlugin) NewProvisioner(o volume.VolumeOptions) (volume.Provisioner, error) {
	return simCall{p, o.PVName}, nil
}

func (p *simPlugin) NewDeleter(spec *volume.Spec) (volume.Deleter, error) {
	return simCall{p, spec.PersistentVolume.Name}, nil
}

// call makes a call with an effect; it can take long, and fail before or after the effect.
func (p *simPlugin) call(ctx context.Context, verb, name string, effect func()) error {
	p.mu.Lock()
	p.calls = append(p.calls, verb+" "+name)
	fault, delay := p.rand.IntN(8), time.Duration(p.rand.IntN(3)*p.rand.IntN(20))*time.Second
	if p.isHealthy {
		fault, delay = -1, 0
	}
	p.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return ctx.Err()
	}
	if fault == 0 {
		return volume.AsTransient(errors.New("injected"))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	effect()
	if fault == 1 {
		return volume.AsUncertain(errors.New("injected"))
	}
	return nil
}

func (c simCall) Provision(ctx context.Context) (*v1.PersistentVolume, error) {
	if err := c.call(ctx, "provision", c.name, func() { c.storage[c.name] = true }); err != nil {
		return nil, err
	}
	pv := &v1.PersistentVolume{}
	pv.Spec.NFS = &v1.NFSVolumeSource{Server: "server", Path: "/" + c.name}
	return pv, nil
}

func (c simCall) Delete(ctx context.Context) error {
	c.check("delete", c.name)
	return c.call(ctx, "delete", c.name, func() { delete(c.storage, c.name) })
}

// Recycle implements volume.Recycler. A call takes over from the earlier ones for the volume that have
// failed.
func (p *simPlugin) Recycle(ctx context.Context, name string, spec *volume.Spec) error {
	p.check("recycle", name)
	r := p.begin(name, spec.PersistentVolume.UID)
	err := p.call(ctx, "recycle", name, func() { p.remove(r) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil || errors.Is(err, volume.ErrTransient) {
		p.forget(r)
		return err
	}
	r.later = time.AfterFunc(time.Duration(p.rand.IntN(600))*time.Second, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.remove(r)
		p.forget(r)
	})
	return err
}

// begin begins a recycling, which takes over from those whose call has ended.
func (p *simPlugin) begin(name string, uid types.UID) *simRecycling {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = slices.DeleteFunc(p.running, func(r *simRecycling) bool { return r.volume == uid && r.later != nil && r.later.Stop() })
	r := &simRecycling{name: name, volume: uid}
	p.running = append(p.running, r)
	return r
}

// remove removes the files of a volume. The caller holds mu.
func (p *simPlugin) remove(r *simRecycling) {
	p.checkEffect(r)
	delete(p.used, r.name)
}

// forget ends a recycling. The caller holds mu.
func (p *simPlugin) forget(r *simRecycling) {
	p.running = slices.DeleteFunc(p.running, func(other *simRecycling) bool { return other == r })
}

// recycles reports whether a recycling of a volume runs.
func (p *simPlugin) recycles(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.running, func(r *simRecycling) bool { return r.volume == uid })
}

// end ends what goes on after calls.
func (p *simPlugin) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.running {
		if r.later != nil {
			r.later.Stop()
		}
	}
}

func (p *simPlugin) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isHealthy = true
}

// callsOf returns the calls so far, and forgets them.
func (p *simPlugin) callsOf() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls
	p.calls = nil
	return calls
}

// TestPlugin: a plugin of the program provisions, deletes and recycles.
func TestPlugin(t *testing.T) {
	plugin := newSimPlugin(1)
	plugin.heal()
	plugins, err := plugin.plugins(t.Context())
	require.NoError(t, err)
	inWorld(t, func(w *world) {
		w.config.Plugins = plugins
		w.start()
		class := newClass("fast", pluginName)
		w.createClass(class)
		claim := newClaim("a", "1Gi")
		claim.Spec.StorageClassName = &class.Name
		claim = w.createClaim(claim)
		w.wait(2 * time.Minute)
		name := "pvc-" + string(claim.UID)
		require.Equal(w, fmt.Sprintf("Bound %s <- Bound a", name), w.state("a", name))
		require.Contains(w, w.volume(name).Finalizers, "kubernetes.io/pv-controller")
		require.Equal(w, []string{"provision " + name}, plugin.callsOf())
		w.deleteClaim("a")
		w.wait(time.Minute)
		w.unprotectVolumes()
		require.Nil(w, w.volume(name))
		require.Equal(w, []string{"delete " + name}, plugin.callsOf())

		pv := newVolume("reused", "1Gi")
		pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRecycle
		w.createVolume(pv)
		w.createClaim(newClaim("b", "1Gi"))
		w.wait(time.Minute)
		pod := newPod("pod", "b", w.claim("b").UID)
		w.createPod(pod)
		w.deleteClaim("b")
		w.wait(time.Minute)
		require.Equal(w, v1.VolumeReleased, w.volume("reused").Status.Phase)
		require.Empty(w, plugin.callsOf(), "the pod uses it")
		require.Contains(w, w.reasons(), "VolumeFailedRecycle")
		w.deletePod("pod")
		w.wait(10 * time.Minute)
		require.Equal(w, []string{"recycle reused"}, plugin.callsOf())
		require.Equal(w, v1.VolumeAvailable, w.volume("reused").Status.Phase)
		require.Nil(w, w.volume("reused").Spec.ClaimRef)
		require.Contains(w, w.reasons(), "VolumeRecycled")
	})
}

// use records that a pod of a claim uses a volume. It returns the claim of an earlier user whose files
// are still there, or "".
func (p *simPlugin) use(name string, claim types.UID) (before types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before = p.used[name]
	p.used[name] = claim
	if before == claim {
		return ""
	}
	return before
}

// reset empties a volume, as an administrator does.
func (p *simPlugin) reset(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, name)
}

// names returns the volumes with storage.
func (p *simPlugin) names() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.storage {
		names = append(names, name)
	}
	return names
}

// abandon removes storage that no object has to lead to: a user has deleted the object of its volume.
func (p *simPlugin) abandon(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.storage, name)
}
