package manager_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestInvalidConfigIsRefused: the error of an invalid configuration names the field.
func TestInvalidConfigIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		break_ func(*manager.Config)
		field  string
	}{
		"empty":             {func(c *manager.Config) { *c = manager.Config{} }, "Config.Plugins"},
		"no plugins":        {func(c *manager.Config) { c.Plugins = nil }, "Config.Plugins"},
		"zero plugins":      {func(c *manager.Config) { c.Plugins = &volume.VolumePluginMgr{} }, "Config.Plugins"},
		"no mounter":        {func(c *manager.Config) { c.Mounter = nil }, "Config.Mounter"},
		"nil mounter":       {func(c *manager.Config) { c.Mounter = (*mounttest.Fake)(nil) }, "Config.Mounter"},
		"no pods":           {func(c *manager.Config) { c.Pods = nil }, "Config.Pods"},
		"nil pods":          {func(c *manager.Config) { c.Pods = (*manager.MemorySource)(nil) }, "Config.Pods"},
		"nil claims":        {func(c *manager.Config) { c.Claims = (*manager.MemorySource)(nil) }, "Config.Claims"},
		"nil attacher":      {func(c *manager.Config) { c.Attacher = (*nilAttacher)(nil) }, "Config.Attacher"},
		"nil metrics":       {func(c *manager.Config) { c.Metrics = (*nilMetrics)(nil) }, "Config.Metrics"},
		"workers":           {func(c *manager.Config) { c.Workers = -1 }, "Config.Workers"},
		"backend workers":   {func(c *manager.Config) { c.BackendWorkers = -1 }, "Config.BackendWorkers"},
		"timeout":           {func(c *manager.Config) { c.Timeout = -1 }, "Config.Timeout"},
		"source timeout":    {func(c *manager.Config) { c.SourceTimeout = -1 }, "Config.SourceTimeout"},
		"backoff":           {func(c *manager.Config) { c.Backoff = -1 }, "Config.Backoff"},
		"max backoff":       {func(c *manager.Config) { c.MaxBackoff = -1 }, "Config.MaxBackoff"},
		"backoff above max": {func(c *manager.Config) { c.Backoff, c.MaxBackoff = time.Minute, time.Second }, "Config.MaxBackoff"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, perPod)
			test.break_(&n.config)
			_, err := manager.New(n.config)
			var refused *field.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, test.field, refused.Field)
		})
	}
}

type nilAttacher struct{ manager.Attacher }

type nilMetrics struct{ manager.Metrics }

// TestZeroHostIsRefused: a host that was not created by NewHost has no root, and is refused.
func TestZeroHostIsRefused(t *testing.T) {
	n := newNode(t, perPod)
	var err error
	n.config.Plugins, err = volume.NewVolumePluginMgr(t.Context(), &volume.Host{})
	require.NoError(t, err)
	_, err = manager.New(n.config)
	require.ErrorContains(t, err, "no root")
}

// TestHostOfPlugins: the manager uses the host of its plugins; its Config has no other.
func TestHostOfPlugins(t *testing.T) {
	n := newNode(t, perPod)
	require.Same(t, n.host, n.config.Plugins.Host())
	require.Nil(t, (&volume.VolumePluginMgr{}).Host())
	require.Nil(t, (*volume.VolumePluginMgr)(nil).Host())
	var refused *field.Error
	require.ErrorAs(t, (&volume.VolumePluginMgr{}).Register(t.Context(), n.plugin), &refused)
}

// TestZeroMemorySource: the zero value of a MemorySource has no pods and is ready for use.
func TestZeroMemorySource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.source = &manager.MemorySource{}
		n.read(n.source)
		m, stop := n.run()
		defer stop()
		time.Sleep(time.Second)
		require.True(t, m.State().Populated)
		n.claim("a")
		pod := podWith("1", "a")
		require.NoError(t, n.source.SetPod(pod))
		n.up(m, pod)
	})
}

// TestNoClaims: without Config.Claims the volumes of claims fail, and others come up.
func TestNoClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.config.Claims = nil
		pod := podWith("1", "a")
		m, stop := n.run()
		defer stop()
		require.NoError(t, n.source.SetPod(pod))
		time.Sleep(time.Second)
		err := m.WaitForAttachAndMount(endedContext(t), pod)
		require.ErrorContains(t, err, "Config.Claims is nil")
		require.True(t, volume.IsNotFound(err))
	})
}

// TestMemorySourceRefusesNamelessObjects: MemorySource refuses nil objects and objects without a name or UID,
// and stays unchanged.
func TestMemorySourceRefusesNamelessObjects(t *testing.T) {
	source := &manager.MemorySource{}
	for name, err := range map[string]error{
		"nil pod":    source.SetPod(podWith("1"), nil),
		"pod":        source.SetPod(podWith("1"), podWith("")),
		"nil claim":  source.SetClaim(nil),
		"claim":      source.SetClaim(&v1.PersistentVolumeClaim{}),
		"nil volume": source.SetVolume(nil),
		"volume":     source.SetVolume(&v1.PersistentVolume{}),
	} {
		var refused *field.Error
		require.ErrorAs(t, err, &refused, name)
	}
	pods, err := source.Pods(t.Context())
	require.NoError(t, err)
	require.Empty(t, pods)
	source.RemovePod("1")
	source.RemoveClaim("", "")
	source.RemoveVolume("")
	<-source.Changed()
}

// TestZeroManager: the methods of a zero Manager return empty results, and Run an error.
func TestZeroManager(t *testing.T) {
	var refused *field.Error
	for name, m := range map[string]*manager.Manager{"zero": {}} {
		require.ErrorAs(t, m.Run(t.Context()), &refused, name)
		require.Empty(t, m.GetMountedVolumesForPod("1"))
		require.Empty(t, m.GetVolumesInUse())
		require.False(t, m.VolumeIsAttached(""))
		require.Empty(t, m.State().Volumes)
		m.MarkRemountRequired("1")
		m.MarkVolumesAsReportedInUse(nil)
		require.ErrorIs(t, m.WaitForAttachAndMount(endedContext(t), podWith("1", "a")), manager.ErrNotRunning)
		require.ErrorIs(t, m.WaitForUnmount(endedContext(t), podWith("1")), manager.ErrNotRunning)
		require.ErrorIs(t, m.WaitForAllPodsUnmount(endedContext(t)), manager.ErrNotRunning)
	}
}

// TestWaitForNilPod: a wait for a nil pod, or for a pod without a UID, is refused at once.
func TestWaitForNilPod(t *testing.T) {
	n := newNode(t, perPod)
	m, err := manager.New(n.config)
	require.NoError(t, err)
	for name, wait := range map[string]func(context.Context, *v1.Pod) error{
		"up": m.WaitForAttachAndMount, "down": m.WaitForUnmount,
	} {
		var refused *field.Error
		require.ErrorAs(t, wait(t.Context(), nil), &refused, name)
		require.ErrorAs(t, wait(t.Context(), podWith("")), &refused, name)
	}
}

// TestZeroValuesPrint: empty values of the API can be printed.
func TestZeroValuesPrint(t *testing.T) {
	require.NotEmpty(t, (&manager.WaitError{}).Error())
	require.NotEmpty(t, (&manager.WaitError{Volumes: []manager.VolumeError{{}}}).Error())
	require.NotEmpty(t, manager.PodState{}.Phase())
	require.Empty(t, manager.State{}.Totals())
}
