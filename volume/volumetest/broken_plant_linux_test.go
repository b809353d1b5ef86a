package volumetest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestFollowedPlantsAreCaught: plugins that follow the links of a pod, or wait for its FIFO, fail the contract.
func TestFollowedPlantsAreCaught(t *testing.T) {
	const (
		after   = "after the pod has put "
		color   = ` at "settings/color"`
		outside = " has changed a file outside of the volume"
		waited  = " has waited until another process opened the FIFO"
	)
	writes := writing{write: writeFile}
	plugins := map[string]broken{
		"writes_through_link":      {writes.config, "PlantedLink", "SetUp " + after + "a symbolic link to a file" + color + outside},
		"writes_through_hard_link": {writes.config, "PlantedHardLink", "SetUp " + after + "a hard link" + color + outside},
		"writes_to_FIFO":           {writes.config, "PlantedFIFO", "SetUp " + after + "a FIFO" + color + waited},
		"writes_below_link": {writes.config, "PlantedDirectoryLink",
			`SetUp after the pod has put a symbolic link to a directory at "settings"` + outside},
		"changes_mode":    {writing{write: changeMode}.config, "PlantedHardLink", "SetUp " + after + "a hard link" + color + outside},
		"changes_mode_of": {writing{write: changeMode}.config, "PlantedLink", "SetUp " + after + "a symbolic link to a file" + color + outside},
		"reads_from_FIFO": {writing{write: compare}.config, "PlantedFIFO", "SetUp " + after + "a FIFO" + color + waited},
		"removes_below_link": {writing{write: writeOnce, remove: removeFile}.config, "PlantedDirectoryLink",
			`TearDown after the pod has put a symbolic link to a directory at "settings"` + outside},
		"removes_no_FIFO": {writing{write: writeOnce, remove: refuseFIFO}.config, "PlantedFIFO",
			"no regular file: TearDown " + after + "a FIFO" + color},
		"waits_when_torn_down": {writing{write: writeOnce, remove: readFile}.config, "PlantedFIFO", "TearDown " + after + "a FIFO" + color + waited},
		"writes_on_remount": {writing{write: writeFile, onRemount: true}.config, "PlantedLink",
			"SetUp " + after + "a symbolic link to a file" + color + outside},
		"writes_after_restart": {writeAfterRestart, "PlantedLink", "SetUp " + after + "a symbolic link to a file" + color + outside},
		"gives_to_group":       {givingToGroup(changeMode), "PlantedLink", "SetUp " + after + "a symbolic link to a file" + color + outside},
		"gives_pods_link_to_group": {givingToGroup(changePods), "PlantedLink",
			`SetUp after the pod has put a symbolic link to a file at "volumetest-pod"` + outside},
		"is_slow": {writing{write: refuseSlowly}.config, "PlantedFIFO", ""},
		"renames": {writing{write: replaceFile}.config, "Planted.*", ""},
		"refuses": {writing{write: refuseLinks}.config, "Planted.*", ""},
		"writes_under_passing_name": {writing{write: writeAndRename}.config, "PlantedLink",
			`SetUp after the pod has put a symbolic link to a file at "settings/color.tmp"` + outside},
		"creates_through_link": {writing{write: writeMissing}.config, "PlantedLink",
			"SetUp " + after + "a symbolic link to a missing file" + color + outside},
		"writes_without_mark": {writing{write: writeUnlessMarked}.config, "PlantedLink", "SetUp " + after + "a symbolic link to a file" + color + outside},
		"changes_empty_directory": {writing{write: changeEmptyDir}.config, "PlantedDirectoryLink",
			`SetUp after the pod has put a symbolic link to a directory at "cache"` + outside},
		"links_below_link": {writing{write: linkBelow}.config, "PlantedDirectoryLink",
			`SetUp after the pod has put a symbolic link to a directory at "links"` + outside},
		"sets_the_same_mode": {writing{write: setSameMode}.config, "PlantedLink", "SetUp " + after + "a symbolic link to a file" + color + outside},
		"changes_mode_of_socket": {writing{write: makeSocket}.config, "PlantedLink",
			`SetUp after the pod has put a symbolic link to a file at "settings/socket"` + outside},
		"measures_FIFO": {writing{write: writeOnce, measure: readFile}.config, "PlantedFIFO", "GetMetrics " + after + "a FIFO" + color + waited},
		"measures_by_writing": {writing{write: writeOnce, measure: writeFile}.config, "PlantedLink",
			"GetMetrics " + after + "a symbolic link to a file" + color + outside},
		"constructs_from_FIFO": {writing{write: writeOnce, construct: readFile}.config, "PlantedFIFO",
			"ConstructVolumeSpec " + after + "a FIFO" + color + waited},
		"creates_by_reading": {writing{write: writeOnce, create: readFile}.config, "PlantedFIFO",
			"NewMounter " + after + "a FIFO" + color + waited},
		"ends_by_reading": {writing{write: writeOnce, end: readFile}.config, "PlantedFIFO",
			"NewUnmounter " + after + "a FIFO" + color + waited},
		"starts_by_reading": {writing{write: writeOnce, start: readFile}.config, "PlantedFIFO", "Init " + after + "a FIFO" + color + waited},
		"waits_and_is_slow": {writing{write: writeOnce, remove: readSlowly}.config, "PlantedFIFO",
			"TearDown " + after + "a FIFO" + color + waited},
		"creates_below_link": {writing{write: createBelow}.config, "PlantedDirectoryLink",
			`SetUp after the pod has put a symbolic link to another directory at "settings"` + outside},
		"moves_below_link": {writing{write: move}.config, "PlantedDirectoryLink",
			`SetUp after the pod has put a symbolic link to a directory at "moved"` + outside},
		"gives_by_ownership": {honouringGroup(giveByOwnership), "Planted.*", ""},
		"removes_directory":  {writing{write: writeBeside}.config, "Planted.*", ""},
		"constructs_by_writing": {writing{write: writeOnce, construct: writeFile}.config, "PlantedLink",
			"ConstructVolumeSpec " + after + "a symbolic link to a file" + color + outside},
		"writes_when_torn_down": {writing{write: writeOnce, remove: writeFile}.config, "PlantedLink",
			"TearDown " + after + "a symbolic link to a file" + color + outside},
		"stays_after_tear_down": {writing{write: writeOnce, remove: keepLink}.config, "PlantedLink",
			"TearDown " + after + "a symbolic link to a file" + color + " has left the directory"},
		"updates_after_restart": {updateAfterRestart, "PlantedLink", "SetUp " + after + "a symbolic link to a file" + color + outside},
		"writes_under_passing_name_among_many": {writing{write: writeManyAndRename}.config, "PlantedLink",
			`SetUp after the pod has put a symbolic link to a file at "settings/color.tmp"` + outside},
		"changes_time_of_hard_link": {writing{write: changeTime}.config, "PlantedHardLink", "SetUp " + after + "a hard link" + color + outside},
		"ends_its_goroutine":        {endGoroutine, "PlantedFIFO", "SetUp " + after + "a FIFO" + color + " has ended its goroutine"},
		"changes_time":              {writing{write: changeTime}.config, "PlantedLink", "SetUp " + after + "a symbolic link to a file" + color + outside},
	}
	if os.Geteuid() == 0 { // other users cannot give a file away
		plugins["gives_to_user"] = broken{giveToUser, "PlantedLink", "SetUp " + after + "a symbolic link to a file" + color + outside}
		plugins["changes_owner"] = broken{writing{write: changeOwner}.config, "PlantedHardLink", "SetUp " + after + "a hard link" + color + outside}
	}
	requireCaught(t, plugins)
}

// writing is the plugin of the example, which also writes and removes a file in a way of its own.
type writing struct {
	*greetings
	write, remove func(file string) error
	onRemount     bool // writes no file twice otherwise
	onGroup       func(file string, group int64) error
	onUser        bool                    // gives the file to the user
	measure       func(file string) error // in GetMetrics
	construct     func(file string) error // in ConstructVolumeSpec
	create        func(file string) error // in NewMounter
	end           func(file string) error // in NewUnmounter
	start         func(file string) error // in Init, of each volume
}

func (p writing) config() volumetest.Config[*testing.T] {
	config := greetingConfig()
	config.New = func(_ *testing.T, _ volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
		p.greetings = &greetings{mounter: mounter}
		return &p
	}
	return config
}

// writeAfterRestart is the configuration of a plugin that writes once per process.
func writeAfterRestart() volumetest.Config[*testing.T] {
	config := greetingConfig()
	config.New = func(t *testing.T, host volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
		written := map[string]bool{}
		once := func(file string) error {
			if written[file] {
				return nil
			}
			written[file] = true
			return writeFile(file)
		}
		return writing{write: once}.config().New(t, host, mounter)
	}
	return config
}

// givingToGroup returns the configuration of a plugin that makes a change for a group.
func givingToGroup(change func(file string) error) func() volumetest.Config[*testing.T] {
	return honouringGroup(func(file string, _ int64) error { return change(file) })
}

func honouringGroup(change func(file string, group int64) error) func() volumetest.Config[*testing.T] {
	return func() volumetest.Config[*testing.T] {
		config := writing{write: writeOnce, onGroup: change}.config()
		config.Arguments.FsGroup = volumetest.Honoured
		return config
	}
}

// giveToUser is the configuration of a plugin that gives its file to the pod's user.
func giveToUser() volumetest.Config[*testing.T] {
	config := writing{write: writeOnce, onUser: true}.config()
	config.Arguments.FsUser = volumetest.Honoured
	return config
}

// updateAfterRestart is the configuration of a plugin that updates a complete volume once per process, and repairs
// no other.
func updateAfterRestart() volumetest.Config[*testing.T] {
	config := greetingConfig()
	config.New = func(t *testing.T, host volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
		updated := map[string]bool{}
		update := func(file string) error {
			mark := filepath.Join(filepath.Dir(file), "complete")
			if _, err := os.Lstat(mark); err != nil {
				updated[file] = true
				return errors.Join(replaceFile(file), os.Symlink("settings", mark))
			}
			if updated[file] {
				return nil
			}
			updated[file] = true
			return writeFile(file)
		}
		return writing{write: update}.config().New(t, host, mounter)
	}
	return config
}

// endGoroutine is the configuration of a plugin with a failed check of its own.
func endGoroutine() volumetest.Config[*testing.T] {
	return writing{write: func(file string) error {
		if refuseFIFO(file) != nil {
			runtime.Goexit()
		}
		return writeOnce(file)
	}}.config()
}

// fileIn returns the path of the file in a volume.
func fileIn(dir string) string { return filepath.Join(dir, "settings", "color") }

func (p *writing) ConstructVolumeSpec(ctx context.Context, name, path string) (volume.ReconstructedVolume, error) {
	if p.construct != nil {
		_ = p.construct(fileIn(path))
	}
	return p.greetings.ConstructVolumeSpec(ctx, name, path)
}

func (p *writing) Init(ctx context.Context, host volume.VolumeHost) error {
	if p.start != nil {
		volumes, _ := filepath.Glob(filepath.Join(host.Root(), "pods/*/volumes/*/*"))
		for _, dir := range volumes {
			_ = p.start(fileIn(dir))
		}
	}
	return p.greetings.Init(ctx, host)
}

func (p *writing) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.greetings.NewMounter(spec, pod)
	if err == nil && p.create != nil {
		_ = p.create(fileIn(m.GetPath()))
	}
	return writingMounter{m, p}, err
}

func (p *writing) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	u, err := p.greetings.NewUnmounter(name, pod)
	if err == nil && p.end != nil {
		_ = p.end(fileIn(u.GetPath()))
	}
	return removingUnmounter{u, p.remove}, err
}

type writingMounter struct {
	volume.Mounter
	plugin *writing
}

func (m writingMounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	file, write := fileIn(m.GetPath()), m.plugin.write
	switch {
	case m.plugin.onRemount && !args.IsRemount:
		write = writeOnce
	case m.plugin.onGroup != nil && args.FsGroup != nil:
		group := *args.FsGroup
		args.FsGroup, write = nil, func(file string) error { return m.plugin.onGroup(file, group) }
	case m.plugin.onUser && args.FsUser != nil:
		write = func(file string) error { return errors.Join(writeOnce(file), os.Chown(file, int(*args.FsUser), -1)) }
	}
	if err := m.Mounter.SetUp(ctx, args); err != nil {
		return err
	}
	return write(file)
}

func (m writingMounter) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	if m.plugin.measure != nil {
		_ = m.plugin.measure(fileIn(m.GetPath()))
	}
	return m.Mounter.GetMetrics(ctx)
}

type removingUnmounter struct {
	volume.Unmounter
	remove func(file string) error
}

func (u removingUnmounter) TearDown(ctx context.Context) error {
	if u.remove != nil {
		switch err := u.remove(fileIn(u.GetPath())); {
		case errors.Is(err, errKept):
			return nil
		case err != nil:
			return err
		}
	}
	return u.Unmounter.TearDown(ctx)
}
