package api_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestNoReadIsOlderThanOwnWrites lets a controller and another program write a claim in random
// order, over a cache that is late and loses its watch, and an API server that fails before or
// after the effect. No read of the controller shows a state before its last write; without a write
// of the other program since, a read shows the exact state; at the end no own state is left.
func TestNoReadIsOlderThanOwnWrites(t *testing.T) {
	for seed := range uint64(300) {
		inWorld(t, stored, func(w world) {
			h := &history{world: w, random: rand.New(rand.NewPCG(seed, 1)), seed: seed}
			for range 60 {
				h.step()
				h.check()
			}
			h.before, h.after = nil, nil
			h.release()
			time.Sleep(2 * time.Minute) // a list after a cut watch, and the verification of claims that ended meanwhile
			h.check()
			for range 2 { // the end of a claim that the cache never had is asked for, and then forgotten
				_, err := h.world.claims.List(h.Context())
				require.NoError(h, err)
				time.Sleep(time.Minute)
			}
			_, err := h.world.claims.List(h.Context())
			require.NoError(h, err)
			require.Zero(h, api.OwnStates(h.world.claims), "seed %d", seed)
		})
	}
}

// A history is a random sequence of writes, each with a new number as the claim's volume.
type history struct {
	world
	random  *rand.Rand
	seed    uint64
	number  int
	own     int  // version of the last effect of the controller
	foreign bool // the other program has written since
}

func (h *history) step() {
	switch h.random.IntN(10) {
	case 0, 1:
		h.hold()
	case 2:
		h.release()
		synctest.Wait()
	case 3:
		h.cut()
		time.Sleep(time.Duration(h.random.IntN(3)) * time.Second)
	case 4:
		h.foreignWrite()
	case 5:
		h.inject()
	case 6:
		h.effect(h.ownDelete)
	default:
		h.effect(h.ownWrite)
	}
}

// inject has the next call fail, before or after its effect.
func (h *history) inject() {
	failure := errors.New("connection reset by peer")
	if h.random.IntN(2) == 0 {
		h.before = func(string) error { h.before = nil; return failure }
	} else {
		h.after = func(string) error { h.after = nil; return failure }
	}
}

// foreignWrite changes, deletes or creates the claim.
func (h *history) foreignWrite() {
	h.number++
	h.foreign = true
	stored := h.stored()
	switch {
	case stored == nil:
		h.put(claim(strconv.Itoa(h.number)))
	case h.random.IntN(3) == 0:
		h.remove(key.Namespace, key.Name)
	default:
		h.put(withVolume(stored, strconv.Itoa(h.number)))
	}
}

func (h *history) stored() *v1.PersistentVolumeClaim {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server.claims[key]
}

// ownWrite creates the claim, or changes it from the state that a read returns.
func (h *history) ownWrite() {
	got, err := h.world.claims.Get(h.Context(), key)
	if err != nil {
		return
	}
	h.number++
	volume := strconv.Itoa(h.number)
	switch {
	case got == nil:
		_, _ = h.world.claims.Create(h.Context(), claim(volume))
	case h.random.IntN(3) == 0:
		_, _ = h.world.claims.Patch(h.Context(), key, types.MergePatchType, []byte(volume))
	default:
		_, _ = h.world.claims.Update(h.Context(), withVolume(got, volume))
	}
}

func (h *history) ownDelete() {
	if got, err := h.world.claims.Get(h.Context(), key); err == nil && got != nil {
		_ = h.world.claims.Delete(h.Context(), got, metav1.DeleteOptions{})
	}
}

// effect calls write, and notes whether it took effect.
func (h *history) effect(write func()) {
	before := h.server.version
	write()
	if h.server.version > before {
		h.own, h.foreign = h.server.version, false
	}
}

func (h *history) check() {
	got, err := h.world.claims.Get(h.Context(), key)
	if err != nil {
		return // the outcome is open
	}
	stored := h.stored()
	switch {
	case h.own == 0 || h.foreign && got == nil:
	case stored == nil && !h.foreign:
		require.True(h, got == nil || got.DeletionTimestamp != nil, "seed %d: the own deletion is not seen", h.seed)
	case got != nil && got.DeletionTimestamp != nil: // deleted by the controller, created by the other program
		require.True(h, h.foreign, "seed %d", h.seed)
	default:
		require.NotNil(h, got, "seed %d: the own write is not seen", h.seed)
		require.GreaterOrEqual(h, versionOf(h, got), h.own, "seed %d: older than the own write", h.seed)
	}
}

func versionOf(t require.TestingT, claim *v1.PersistentVolumeClaim) int {
	version, err := strconv.Atoi(claim.ResourceVersion)
	require.NoError(t, err)
	return version
}
