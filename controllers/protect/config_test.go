package protect_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/protect"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"
)

func TestInvalidConfig(t *testing.T) {
	for want, change := range map[string]func(*protect.Config){
		`protect: Config.Cluster: Required value: has the claims and the volumes`:                  func(c *protect.Config) { c.Cluster = nil },
		`protect: Config.WithoutEphemeral: Invalid value: true: leaves no work for the controller`: func(c *protect.Config) { c.WithoutClaims, c.WithoutVolumes, c.WithoutEphemeral = true, true, true },
		`protect: Config.ReportUnused: Invalid value: true: requires the protection of claims`:     func(c *protect.Config) { c.WithoutClaims, c.ReportUnused = true, true },
		`protect: Config.Workers: Invalid value: -1: must be at least 0`:                           func(c *protect.Config) { c.Workers = -1 },
		`protect: Config.Recheck: Invalid value: "-1ns": must be at least 0`:                       func(c *protect.Config) { c.Recheck = -1 },
		`protect: Config.Backoff: Invalid value: "-1ns": must be at least 0`:                       func(c *protect.Config) { c.Backoff = -1 },
		`protect: Config.MaxBackoff: Invalid value: "-1ns": must be at least 0`:                    func(c *protect.Config) { c.MaxBackoff = -1 },
	} {
		config := protect.Config{Cluster: apitest.NewServer(apitest.Config{}).Direct()}
		change(&config)
		controller, err := protect.New(config)
		require.EqualError(t, err, want)
		require.ErrorAs(t, err, new(*field.Error))
		require.Nil(t, controller)
	}
}

// TestParts: a part that is switched off lists and writes nothing.
func TestParts(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*protect.Config)
		absent string
		lists  []string
	}{
		"claims":          {func(c *protect.Config) { c.WithoutClaims = true }, "claim", nil},
		"volumes":         {func(c *protect.Config) { c.WithoutVolumes = true }, "volume", []string{"persistentvolumes"}},
		"ephemeral":       {func(c *protect.Config) { c.WithoutEphemeral = true }, "ephemeral", nil},
		"all but volumes": {func(c *protect.Config) { c.WithoutClaims, c.WithoutEphemeral = true, true }, "claim ephemeral", []string{"pods"}},
	} {
		inWorld(t, func(w *world) {
			test.change(&w.config)
			w.createClaim("a")
			w.createVolume(newVolume("pv"))
			w.createPod(withEphemeral(newPod("pod"), "b"))
			w.start()
			w.deleteClaim("a")
			w.deleteVolume("pv")
			for part, isAbsent := range map[string]bool{
				"claim": w.claim("a") != nil, "volume": w.volume("pv") != nil, "ephemeral": w.claim("pod-b") == nil,
			} {
				require.Equal(w, isAbsent, isPartOf(part, test.absent), "without %s: %s", name, part)
			}
			for _, resource := range test.lists {
				require.Empty(w, w.server.Calls(apitest.Call{Identity: identity, Resource: resource}))
			}
		})
	}
}

func isPartOf(part, absent string) bool {
	return part == absent || absent == "claim ephemeral" && part != "volume"
}

// TestRunOnce: a controller runs once, and fails for a cache of another kind.
func TestRunOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Cluster = w.cluster
		controller, err := protect.New(w.config)
		require.NoError(w, err)
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		require.NoError(w, controller.Run(ctx))
		require.EqualError(w, controller.Run(w.Context()), "protect: a controller runs once")
	})
	inWorld(t, func(w *world) {
		w.config.Cluster = w.cluster
		informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1.Pod{}, 0, cache.Indexers{})
		require.NoError(w, informer.GetIndexer().Add(newVolume("pv")))
		w.config.Pods = api.CacheOf[*v1.Pod](syncedInformer{informer}, nil)
		controller, err := protect.New(w.config)
		require.NoError(w, err)
		err = controller.Run(w.Context())
		require.EqualError(w, err, "protect: api: cache of *v1.Pod: the informer holds objects of type *v1.PersistentVolume")
	})
}

// A syncedInformer has synced.
type syncedInformer struct{ cache.SharedIndexInformer }

func (syncedInformer) HasSynced() bool { return true }
