package volumetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// NewMounter implements [volume.VolumePlugin].
func (p *FakePlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	if err := p.count(NewMounter); err != nil {
		return nil, err
	}
	source, err := p.source(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	fake, err := p.volume(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	return &fakeMounter{fake, source, spec.IsReadOnly()}, nil
}

// NewUnmounter implements [volume.VolumePlugin].
func (p *FakePlugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	if err := p.count(NewUnmounter); err != nil {
		return nil, err
	}
	fake, err := p.volume(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	return &fakeUnmounter{fake}, nil
}

// NewUnmounterAt implements [volume.PathVolumePlugin].
func (p *FakePlugin) NewUnmounterAt(path string) (volume.Unmounter, error) {
	if err := p.count(NewUnmounterAt); err != nil {
		return nil, err
	}
	host, err := p.getHost()
	if err != nil {
		return nil, err
	}
	clean := filepath.Clean(path)
	for _, dir := range append([]string{host.Root()}, host.TargetDirs()...) {
		if strings.HasPrefix(clean, dir+string(filepath.Separator)) {
			return &fakeUnmounter{fakeVolume{p, clean}}, nil
		}
	}
	return nil, volume.Invalid(field.NewPath("path"), path, "not below a directory for volumes")
}

// ConstructVolumeSpec implements [volume.VolumePlugin]. It returns a volume of NewSpec for any
// volume.
func (p *FakePlugin) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (found volume.ReconstructedVolume, err error) {
	err = p.call(ctx, ConstructVolumeSpec, func() (err error) {
		if err = volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err == nil {
			found.Spec, err = p.construct(ctx, volumeName, mountPath)
		}
		return err
	})
	if err != nil {
		return volume.ReconstructedVolume{}, err
	}
	return found, nil
}

func (p *FakePlugin) construct(ctx context.Context, volumeName, mountPath string) (*volume.Spec, error) {
	list, err := p.config.Mounter.List(ctx)
	if err != nil {
		return nil, err
	}
	at, mounted := mount.Table(list).At(tablepath.Of(mountPath))
	if !mounted {
		return nil, fmt.Errorf("volume %q at %q: %w", volumeName, mountPath, volume.ErrNotMounted)
	}
	origins := mount.Table(list).Origins(at.Mountpoint)
	if len(origins) == 0 {
		return nil, fmt.Errorf("volume %q at %q: the mounted source is unreachable", volumeName, mountPath)
	}
	spec := p.NewSpec(volumeName, tablepath.Native(origins[0]))
	spec.ReadOnly = at.Flags&mount.ReadOnly != 0
	return spec, nil
}

// A fakeVolume is a volume of a pod at its path.
type fakeVolume struct {
	plugin *FakePlugin
	path   string
}

func (p *FakePlugin) volume(name string, podUID types.UID) (fakeVolume, error) {
	host, err := p.getHost()
	if err != nil {
		return fakeVolume{}, err
	}
	path, err := host.PodVolumeDir(podUID, p.config.Name, name)
	return fakeVolume{p, path}, err
}

func (v fakeVolume) GetPath() string { return v.path }

// GetMetrics returns constant numbers.
func (v fakeVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	var metrics *volume.Metrics
	err := v.plugin.call(ctx, GetMetrics, func() error {
		mounted, err := v.plugin.config.Mounter.IsMountPoint(ctx, v.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !mounted {
			return fmt.Errorf("volume at %q: %w", v.path, volume.ErrNotMounted)
		}
		metrics = madeUpMetrics()
		return nil
	})
	return metrics, err
}

func madeUpMetrics() *volume.Metrics {
	return &volume.Metrics{
		Time:       metav1.NewTime(time.Now()),
		Capacity:   resource.NewQuantity(4096, resource.BinarySI),
		Used:       resource.NewQuantity(1024, resource.BinarySI),
		Available:  resource.NewQuantity(3072, resource.BinarySI),
		Inodes:     resource.NewQuantity(4, resource.DecimalSI),
		InodesUsed: resource.NewQuantity(1, resource.DecimalSI),
		InodesFree: resource.NewQuantity(3, resource.DecimalSI),
	}
}

type fakeMounter struct {
	fakeVolume
	source   string
	readOnly bool
}

func (m *fakeMounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

func (m *fakeMounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	return m.plugin.call(ctx, SetUp, func() error {
		return m.plugin.bringUp(ctx, m.source, dir, m.readOnly || args.ReadOnly)
	})
}

func (m *fakeMounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly}
}

type fakeUnmounter struct{ fakeVolume }

func (u *fakeUnmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

func (u *fakeUnmounter) TearDownAt(ctx context.Context, dir string) error {
	return u.plugin.call(ctx, TearDown, func() error { return u.plugin.takeDown(ctx, dir) })
}
