package contract

import (
	"context"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/volume"
)

// A provisioning is the creation of a volume.
type provisioning struct {
	*contract
	options volume.VolumeOptions
}

// provisioning skips the test if the plugin provisions nothing.
func (c *contract) provisioning() provisioning {
	c.Helper()
	if _, able := volume.As[volume.ProvisionableVolumePlugin](c.plugin); !able {
		require.Nil(c, c.Claim, "the configuration has Claim, and the plugin is no ProvisionableVolumePlugin")
		c.Skip("the plugin provisions nothing")
	}
	require.NotNil(c, c.Claim, "the plugin is a ProvisionableVolumePlugin: the configuration needs Claim")
	return provisioning{c, c.Claim()}
}

func (p provisioning) provision(ctx context.Context) (*v1.PersistentVolume, error) {
	p.Helper()
	return p.provisionWith(ctx, p.plugin)
}

func (p provisioning) provisionWith(ctx context.Context, plugin volume.VolumePlugin) (*v1.PersistentVolume, error) {
	p.Helper()
	able, ok := volume.As[volume.ProvisionableVolumePlugin](plugin)
	require.True(p, ok)
	before := p.options.PVC.DeepCopy()
	defer func() { require.Equal(p, before, p.options.PVC, "the plugin changed the claim") }()
	provisioner, err := able.NewProvisioner(p.options)
	if err != nil {
		return nil, err
	}
	return provisioner.Provision(ctx)
}

func (p provisioning) mustProvision() *volume.Spec {
	p.Helper()
	pv, err := p.provision(p.Context())
	require.NoError(p, err)
	return volume.NewSpecFromPersistentVolume(pv, false)
}

func (c *contract) deleteStorage(ctx context.Context, spec *volume.Spec) error {
	c.Helper()
	able, ok := volume.As[volume.DeletableVolumePlugin](c.plugin)
	require.True(c, ok, "a plugin that provisions can delete")
	deleter, err := able.NewDeleter(spec)
	if err != nil {
		return err
	}
	return deleter.Delete(ctx)
}

// requireNotProvisioned verifies that options are refused finally, and returns the error.
func (p provisioning) requireNotProvisioned(what string) error {
	p.Helper()
	before := p.state()
	for range 2 {
		pv, err := p.provision(p.Context())
		require.Error(p, err, what)
		require.Nil(p, pv, what)
		require.Equal(p, volume.Final, volume.KindOf(err), what)
		p.requireUnchanged(before, what)
	}
	_, err := p.provision(p.Context())
	return err
}

// provision makes each call twice, also after a restart, and uses the volume in between.
func (c *contract) provision() {
	p := c.provisioning()
	for range 2 {
		spec := p.mustProvision()
		p.requireDescribed(spec)
		for _, plugin := range []volume.VolumePlugin{c.plugin, c.restarted()} {
			again, err := p.provisionWith(c.Context(), plugin)
			require.NoError(c, err)
			require.Equal(c, spec.PersistentVolume, again, "the volume is provisioned already")
		}
		p.requireUsable(spec)
		for range 2 {
			require.NoError(c, c.deleteStorage(c.Context(), spec))
		}
	}
}

func (p provisioning) requireDescribed(spec *volume.Spec) {
	p.Helper()
	claim, pv := p.options.PVC, spec.PersistentVolume
	require.NoError(p, spec.Validate())
	require.Equal(p, p.options.PVName, spec.Name())
	require.True(p, p.plugin.CanSupport(spec))
	require.Subset(p, pv.Spec.AccessModes, claim.Spec.AccessModes)
	have, want := pv.Spec.Capacity[v1.ResourceStorage], claim.Spec.Resources.Requests[v1.ResourceStorage]
	require.GreaterOrEqual(p, have.Cmp(want), 0, "the volume has %v of %v", &have, &want)
	require.Equal(p, claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == v1.PersistentVolumeBlock, spec.IsBlock())
	class := p.options.StorageClass
	require.Subset(p, spec.MountOptions(), class.MountOptions)
	if class.ReclaimPolicy != nil {
		require.Equal(p, *class.ReclaimPolicy, pv.Spec.PersistentVolumeReclaimPolicy)
	}
}

func (p provisioning) requireUsable(spec *volume.Spec) {
	p.Helper()
	p.guardedSpec(spec)
	mounter := p.newMounter(spec)
	require.NoError(p, mounter.SetUp(p.Context(), volume.MounterArgs{}))
	p.mustTearDown(spec)
	p.unstage(spec)
}

func (c *contract) provisionBad() {
	p := c.provisioning()
	for reason, options := range c.Infeasible {
		bad := provisioning{c, options}
		require.ErrorIs(c, bad.requireNotProvisioned(reason), volume.ErrInfeasible, reason)
	}
	able, _ := volume.As[volume.ProvisionableVolumePlugin](c.plugin)
	before := c.state()
	for _, name := range []string{"", ".", "..", "a/b", "../../etc", "a\x00b"} {
		options := p.options
		options.PVName = name
		_, err := able.NewProvisioner(options)
		c.requireRefused(err, "name of the persistent volume")
	}
	c.requireUnchanged(before, "a refused name changed something")
}

// provisionBlock: the plugin provisions a raw device, or nothing.
func (c *contract) provisionBlock() {
	p := c.provisioning()
	block := v1.PersistentVolumeBlock
	p.options.PVC = p.options.PVC.DeepCopy()
	p.options.PVC.Spec.VolumeMode = &block
	able, ok := volume.As[volume.BlockProvisioner](c.plugin)
	if !ok || !able.SupportsBlock(c.Context()) {
		require.ErrorIs(c, p.requireNotProvisioned("a raw device"), volume.ErrNotSupported)
		return
	}
	spec := p.mustProvision()
	p.requireDescribed(spec)
	require.NoError(c, c.deleteStorage(c.Context(), spec))
}

// provisionClasses: no class, the class of another provisioner, and an attributes class.
func (c *contract) provisionClasses() {
	p := c.provisioning()
	other := p
	other.options.StorageClass = storagev1.StorageClass{Provisioner: "other.example.com"}
	var ignored *volume.IgnoredError
	require.ErrorAs(c, other.requireNotProvisioned("the class of another"), &ignored)

	attributes := p
	attributes.options.VolumeAttributesClass = volume.VolumeAttributesClass{
		Name: "gold", DriverName: p.options.StorageClass.Provisioner, Parameters: map[string]string{"iops": "1"},
	}
	pv, err := attributes.provision(c.Context())
	if err == nil {
		require.NotNil(c, pv.Spec.VolumeAttributesClassName, "what the volume has is said")
		require.Equal(c, "gold", *pv.Spec.VolumeAttributesClassName)
		require.NoError(c, c.deleteStorage(c.Context(), volume.NewSpecFromPersistentVolume(pv, false)))
	} else {
		require.Equal(c, volume.Final, volume.KindOf(err))
	}

	able, _ := volume.As[volume.ProvisionableVolumePlugin](c.plugin)
	provisioner, err := able.NewProvisioner(volume.VolumeOptions{PVName: p.options.PVName})
	if err == nil {
		pv, err = provisioner.Provision(c.Context())
	}
	if err == nil {
		require.Equal(c, p.options.PVName, pv.Name)
		require.NoError(c, c.deleteStorage(c.Context(), volume.NewSpecFromPersistentVolume(pv, false)))
	}
}

func (c *contract) provisionEndedContext() {
	p := c.provisioning()
	ended, cancel := context.WithCancel(c.Context())
	cancel()
	before := c.state()
	_, err := p.provision(ended)
	require.ErrorIs(c, err, context.Canceled)
	c.requireUnchanged(before, "Provision with an ended context changed something")
	spec := p.mustProvision()
	before = c.state()
	require.ErrorIs(c, c.deleteStorage(ended, spec), context.Canceled)
	c.requireUnchanged(before, "Delete with an ended context changed something")
	require.NoError(c, c.deleteStorage(c.Context(), spec))
}

// provisionOtherNode: the error requests another node from the scheduler, and no storage is
// left.
func (c *contract) provisionOtherNode() {
	p := c.provisioning()
	if c.OtherNode == nil {
		c.Skip("the plugin provisions for every node")
	}
	p.options.SelectedNode = c.OtherNode
	require.ErrorIs(c, p.requireNotProvisioned("another node"), volume.ErrReschedule)
}

// deleteForeign: storage that was not provisioned by the plugin stays.
func (c *contract) deleteForeign() {
	if _, able := volume.As[volume.DeletableVolumePlugin](c.plugin); !able {
		c.Skip("the plugin deletes nothing")
	}
	spec := c.unchangedSpec(c.Spec())
	before := c.state()
	err := c.deleteStorage(c.Context(), spec)
	var ignored *volume.IgnoredError
	require.ErrorAs(c, err, &ignored)
	require.Equal(c, volume.Final, volume.KindOf(err))
	c.requireUnchanged(before, "the storage of another provisioner changed")
	if c.Backing != nil {
		require.DirExists(c, c.Backing(spec))
	}
}
