package flexvolume

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestContract: volumes of a driver that mounts by device, and of one that mounts for each pod, keep the contract of
// plugins, with a driver in this process.
func TestContract(t *testing.T) {
	for _, attach := range []bool{false, true} {
		t.Run(fmt.Sprintf("attach=%t fake", attach), func(t *testing.T) {
			volumetest.TestPlugin(t, fakeConfig(t, attach, nil))
		})
		t.Run(fmt.Sprintf("attach=%t real", attach), func(t *testing.T) {
			if mounttest.Namespace(t) {
				volumetest.TestPlugin(t, fakeConfig(t, attach, mount.New(mount.Config{})))
			}
		})
	}
}

// fakeConfig returns the configuration for a fakeDriver; a nil mounter is a new fake kernel for each test.
func fakeConfig(t *testing.T, attach bool, mounter mount.Interface) volumetest.Config[*testing.T] {
	config := baseConfig()
	d := newFakeDriver(t, mounter)
	d.attach = attach
	if attach {
		d.lacks = []string{"mount"} // the plugin binds the device mount
	}
	config.New = func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
		d.mounter = m
		return d.plugin()
	}
	config.Spec = func(t *testing.T) *volume.Spec { return d.volume(t) }
	config.ReadOnlySpec = func(t *testing.T) *volume.Spec {
		spec := d.volume(t)
		spec.PersistentVolume.Spec.FlexVolume.ReadOnly = true
		return spec
	}
	if mounter != nil {
		config.NewMounter = func(*testing.T) mount.Interface { return mounter }
		config.Backing = func(spec *volume.Spec) string { return filepath.Join(d.dir, spec.Name()) }
	} else {
		config.NoMetrics = true
	}
	return config
}

// baseConfig returns the part of a configuration that holds for each driver.
func baseConfig() volumetest.Config[*testing.T] {
	invalid := func(change func(*v1.FlexPersistentVolumeSource)) *volume.Spec {
		spec := pv("invalid", nil)
		change(spec.PersistentVolume.Spec.FlexVolume)
		return spec
	}
	return volumetest.Config[*testing.T]{
		NoBlock:         true,
		RuntimeReadOnly: true,
		SELinuxRelabel:  true,
		SharedAttach:    true,
		Arguments:       volumetest.Arguments{FsGroup: volumetest.Honoured},
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "v"}),
			volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, false),
			invalid(func(s *v1.FlexPersistentVolumeSource) { s.Driver = "example.com/other" }),
		},
		Invalid: map[string]*volume.Spec{
			"reserved option":   invalid(func(s *v1.FlexPersistentVolumeSource) { s.Options = map[string]string{keyPodUID: "x"} }),
			"not UTF-8":         invalid(func(s *v1.FlexPersistentVolumeSource) { s.Options = map[string]string{"a": "\xff"} }),
			"type with a blank": invalid(func(s *v1.FlexPersistentVolumeSource) { s.FSType = "ext4 -o suid" }),
			"unnamed Secret":    invalid(func(s *v1.FlexPersistentVolumeSource) { s.SecretRef = &v1.SecretReference{} }),
		},
	}
}
