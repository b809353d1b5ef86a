package provision_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// TestFromPlugin: a plugin provisions a directory for a claim and deletes it.
func TestFromPlugin(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	inWorld(t, func(w *world) {
		plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounttest.NewFake(mount.Config{})})
		host, err := volume.NewHost(w.Context(), root)
		require.NoError(w, err)
		_, err = volume.NewVolumePluginMgr(w.Context(), host, plugin)
		require.NoError(w, err)
		w.config.Name = plugin.GetPluginName()
		w.config.Provisioner, err = provision.FromPlugin(plugin)
		require.NoError(w, err)
		_, isBlock := w.config.Provisioner.(volume.BlockProvisioner)
		require.True(w, isBlock)

		class, claim := newClass("c"), newClaim("a", "c")
		class.Provisioner = w.config.Name
		claim.Annotations[provision.ProvisionerAnnotation] = w.config.Name
		w.createClass(class)
		claim = w.createClaim(claim)
		w.start()
		w.wait(time.Second)
		dirs, err := filepath.Glob(root + "/plugins/*/*/provisioned/pvc-" + string(claim.UID))
		require.NoError(w, err)
		require.Len(w, dirs, 1)
		w.bind()
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		w.deleteClaim("a")
		w.finish()
		require.NoDirExists(w, dirs[0])
		w.checkNothingLeft()
	})
}

// A withoutOptions is a plugin that provisions, and ignores mount options.
type withoutOptions struct {
	volume.VolumePlugin
	provisioner volume.ProvisionableVolumePlugin
	deleter     volume.DeletableVolumePlugin
}

func (p withoutOptions) NewProvisioner(o volume.VolumeOptions) (volume.Provisioner, error) {
	return p.provisioner.NewProvisioner(o)
}

func (p withoutOptions) NewDeleter(spec *volume.Spec) (volume.Deleter, error) {
	return p.deleter.NewDeleter(spec)
}

// TestFromPluginWithoutMountOptions: a class with mount options gets no volume that no pod could mount with them.
func TestFromPluginWithoutMountOptions(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	inWorld(t, func(w *world) {
		fake := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounttest.NewFake(mount.Config{})})
		host, err := volume.NewHost(w.Context(), root)
		require.NoError(w, err)
		plugin := withoutOptions{fake, fake, fake}
		_, err = volume.NewVolumePluginMgr(w.Context(), host, plugin)
		require.NoError(w, err)
		w.config.Provisioner, err = provision.FromPlugin(plugin)
		require.NoError(w, err)
		w.config.Name = plugin.GetPluginName()
		class := func(name string, options ...string) {
			c := newClass(name)
			c.Provisioner, c.MountOptions = w.config.Name, options
			w.createClass(c)
		}
		claim := func(name, class string) *v1.PersistentVolumeClaim {
			c := newClaim(name, class)
			c.Annotations[provision.ProvisionerAnnotation] = w.config.Name
			return c
		}
		class("c", "noexec")
		class("plain")
		w.createClaim(claim("a", "c"))
		w.createClaim(claim("b", "plain"))
		w.start()
		w.wait(time.Second)
		require.Len(w, w.volumes(), 1)
		require.Equal(w, "b", w.volumes()[0].Spec.ClaimRef.Name)
		require.Contains(w, w.eventsOf("ProvisioningFailed")[0], `storage class "c" has mount options`)
		require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
		copied := claim("copied", "plain")
		from("", "PersistentVolumeClaim")(copied)
		w.createClaim(copied)
		w.wait(time.Second)
		require.Len(w, w.volumes(), 1)
	})
}

// plain is a plugin without abilities.
type plain struct{ volume.VolumePlugin }

func (plain) GetPluginName() string { return "example.com/plain" }

func TestFromPluginWithoutAbilities(t *testing.T) {
	_, err := provision.FromPlugin(plain{})
	require.ErrorIs(t, err, volume.ErrNotSupported)
	require.ErrorContains(t, err, `plugin "example.com/plain" does not provision volumes`)
}
