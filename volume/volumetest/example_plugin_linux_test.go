package volumetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/atomicdir"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

// greetingDriver identifies a greeting in a pod, as the driver of a csi volume.
const greetingDriver = "greeting.example.com"

// greetings is a plugin whose volumes are directories with files that the plugin writes. The pod owns the
// directory, and can replace each file by a link or a FIFO before the next SetUp: atomicdir replaces such
// an entry, and never follows it.
type greetings struct {
	mounter mount.Interface
	host    volume.VolumeHost
	dirs    *podvolume.Dirs
}

func (p *greetings) Init(_ context.Context, host volume.VolumeHost) error {
	p.host, p.dirs = host, podvolume.NewDirs(host, p.mounter, p.GetPluginName())
	return nil
}

func (p *greetings) GetPluginName() string { return "example.com/greeting" }

func (p *greetings) GetVolumeName(spec *volume.Spec) (string, error) {
	_, err := p.greeted(spec)
	return spec.Name(), err
}

func (p *greetings) CanSupport(spec *volume.Spec) bool {
	return spec != nil && spec.Volume != nil && spec.Volume.CSI != nil && spec.Volume.CSI.Driver == greetingDriver
}

// greeted returns the name to greet.
func (p *greetings) greeted(spec *volume.Spec) (string, error) {
	if err := spec.Validate(); err != nil {
		return "", err
	}
	at := field.NewPath("spec", "volume", "csi")
	if !p.CanSupport(spec) {
		return "", field.Required(at.Child("driver"), "not a greeting")
	}
	name := spec.Volume.CSI.VolumeAttributes["name"]
	if len(name) > 100 {
		return "", field.TooLong(at.Child("volumeAttributes").Key("name"), "", 100)
	}
	return name, nil
}

func (p *greetings) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	name, err := p.greeted(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	v, err := p.volume(spec.Name(), pod.UID)
	return &greeting{v.greetingDir, name, spec.IsReadOnly()}, err
}

func (p *greetings) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	return p.volume(volumeName, podUID)
}

func (p *greetings) volume(name string, podUID types.UID) (*greetingUnmounter, error) {
	path, err := p.host.PodVolumeDir(podUID, p.GetPluginName(), name)
	return &greetingUnmounter{greetingDir{p, path}}, err
}

// ConstructVolumeSpec returns the volume from the record that SetUp has written.
func (p *greetings) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (volume.ReconstructedVolume, error) {
	if err := volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err != nil {
		return volume.ReconstructedVolume{}, err
	}
	record, err := p.dirs.Find(ctx, mountPath)
	if err != nil {
		return volume.ReconstructedVolume{}, err
	}
	var name string
	if err := json.Unmarshal(record, &name); err != nil {
		return volume.ReconstructedVolume{}, volume.AsUncertain(err)
	}
	return volume.ReconstructedVolume{Spec: newGreeting(volumeName, name)}, nil
}

// A greetingDir is the directory of a volume in a pod.
type greetingDir struct {
	plugin *greetings
	path   string
}

func (d greetingDir) GetPath() string { return d.path }

func (d greetingDir) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	return d.plugin.dirs.GetMetrics(ctx, d.path)
}

// A greeting sets a volume up.
type greeting struct {
	greetingDir
	name     string
	readOnly bool
}

func (g *greeting) GetAttributes() volume.Attributes { return volume.Attributes{ReadOnly: g.readOnly} }

func (g *greeting) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return g.SetUpAt(ctx, g.path, args)
}

func (g *greeting) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if args.FsGroup != nil || args.DesiredSize != nil || args.SELinuxLabel != "" {
		return fmt.Errorf("a group, size or label for a greeting: %w", volume.ErrNotSupported)
	}
	record, err := json.Marshal(g.name)
	if err != nil {
		return err
	}
	return g.plugin.dirs.SetUp(ctx, dir, podvolume.Dir{Mode: 0o755, Record: record, Fill: g.fill})
}

// fill writes the files, at each SetUp. os.WriteFile would follow a link that the pod has put in the place of
// a file, and write outside of the volume with the rights of this process.
func (g *greeting) fill(ctx context.Context, dir string) error {
	files := map[string]atomicdir.File{
		"greeting":   {Data: []byte("hello, " + g.name)},
		"more/later": {Data: []byte("goodbye, " + g.name)},
	}
	changed, err := atomicdir.Write(ctx, dir, files, atomicdir.Options{})
	var left *atomicdir.LeftoverError
	switch {
	case err == nil:
		return nil
	case changed, errors.As(err, &left):
		return volume.AsUncertain(err)
	}
	return util.Transient(err)
}

// A greetingUnmounter tears a volume down.
type greetingUnmounter struct{ greetingDir }

func (u *greetingUnmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

func (u *greetingUnmounter) TearDownAt(ctx context.Context, dir string) error {
	return u.plugin.dirs.TearDown(ctx, dir)
}

func newGreeting(volumeName, name string) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{Name: volumeName, VolumeSource: v1.VolumeSource{
		CSI: &v1.CSIVolumeSource{Driver: greetingDriver, VolumeAttributes: map[string]string{"name": name}},
	}})
}

// A whole plugin whose volumes are directories with files: a test passes it to TestPlugin with Plain,
// Ephemeral and RuntimeReadOnly. The pod replaces a file by a link, and the next SetUp mends the volume.
func Example_directoryPlugin() {
	root, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(root)
	ctx := context.Background()
	host, err := volume.NewHost(ctx, root)
	if err != nil {
		fmt.Println(err)
		return
	}
	plugin := &greetings{mounter: mount.New(mount.Config{})}
	if _, err := volume.NewVolumePluginMgr(ctx, host, plugin); err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{}
	pod.UID = "5c0e-77"
	mounter, err := plugin.NewMounter(newGreeting("hello", "world"), pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("set up:", mounter.SetUp(ctx, volume.MounterArgs{}))

	file, outside := filepath.Join(mounter.GetPath(), "greeting"), filepath.Join(root, "outside")
	_ = os.WriteFile(outside, []byte("precious"), 0o600)
	_ = os.Remove(file)
	_ = os.Symlink(outside, file)
	fmt.Println("set up again:", mounter.SetUp(ctx, volume.MounterArgs{IsRemount: true}))
	text, _ := os.ReadFile(file)
	fmt.Println("in the volume:", string(text))
	text, _ = os.ReadFile(outside)
	fmt.Println("outside:", string(text))
	unmounter, err := plugin.NewUnmounter("hello", pod.UID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("torn down:", unmounter.TearDown(ctx))
	// Output:
	// set up: <nil>
	// set up again: <nil>
	// in the volume: hello, world
	// outside: precious
	// torn down: <nil>
}
