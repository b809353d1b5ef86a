package provision_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestInvalidConfig(t *testing.T) {
	cluster := apitest.NewServer(apitest.Config{}).Direct()
	valid := provision.Config{Name: driver, Provisioner: newStorage(), Cluster: cluster}
	tests := map[string]func(*provision.Config){
		`provision: Config.Name: Required value: classes and claims name the provisioner`:                         func(c *provision.Config) { c.Name = "" },
		`provision: Config.Name: Invalid value: "kubernetes.io/no-provisioner": means that no provisioner exists`: func(c *provision.Config) { c.Name = "kubernetes.io/no-provisioner" },
		`provision: Config.Provisioner: Required value: creates the storage`:                                      func(c *provision.Config) { c.Provisioner = nil },
		`provision: Config.Cluster: Required value: has the claims and the volumes`:                               func(c *provision.Config) { c.Cluster = nil },
		`provision: Config.AdditionalNames[1]: Invalid value: "": must be the name of a provisioner`:              func(c *provision.Config) { c.AdditionalNames = []string{"a", ""} },
		`provision: Config.VolumeFinalizer: Invalid value: "guard": must be a qualified name with a domain`:       func(c *provision.Config) { c.VolumeFinalizer = "guard" },
		`provision: Config.VolumeFinalizer: Invalid value: "a b/c": must be a qualified name with a domain`:       func(c *provision.Config) { c.VolumeFinalizer = "a b/c" },
		`provision: Config.Calls: Invalid value: -1: must be at least 0`:                                          func(c *provision.Config) { c.Calls = -1 },
		`provision: Config.Timeout: Invalid value: "-1ns": must be at least 0`:                                    func(c *provision.Config) { c.Timeout = -1 },
	}
	for want, change := range tests {
		config := valid
		change(&config)
		controller, err := provision.New(config)
		require.EqualError(t, err, want)
		require.ErrorAs(t, err, new(*field.Error))
		require.Nil(t, controller)
	}
}

// TestRunEnds: Run returns after the calls of the Provisioner have returned, and runs once.
func TestRunEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		isBusy := make(chan bool, 1)
		w.storage.on("provision", func(ctx context.Context, _ string) (early, late error) {
			isBusy <- true
			<-ctx.Done()
			time.Sleep(time.Second)
			<-isBusy
			return ctx.Err(), nil
		})
		config := w.config
		config.Cluster = w.server.Connect("provisioner")
		controller, err := provision.New(config)
		require.NoError(w, err)
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		require.NoError(w, controller.Run(ctx))
		require.Empty(w, isBusy)
		require.EqualError(w, controller.Run(w.Context()), "provision: a controller runs once")
	})
}

// TestCachesOfTheEmbedder: the controller uses caches that the embedder runs, and lists nothing.
func TestCachesOfTheEmbedder(t *testing.T) {
	inWorld(t, func(w *world) {
		cluster := w.server.Connect("embedder")
		w.config.Claims = api.NewCache(cluster.PersistentVolumeClaims(""), api.CacheConfig{})
		w.config.Volumes = api.NewCache(cluster.PersistentVolumes(), api.CacheConfig{})
		w.config.Classes = api.NewCache(cluster.StorageClasses(), api.CacheConfig{})
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		go func() { _ = w.config.Claims.Run(ctx) }()
		go func() { _ = w.config.Volumes.Run(ctx) }()
		go func() { _ = w.config.Classes.Run(ctx) }()
		w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(time.Second)
		w.bind()
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		require.Empty(w, w.server.Calls(apitest.Call{Identity: "provisioner", Verb: apitest.List}))
	})
}
