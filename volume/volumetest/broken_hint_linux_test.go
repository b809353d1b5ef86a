package volumetest_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestWrongConfigurationsAreNamed: a sound plugin with a wrong configuration fails with a message that ends with
// the field that describes the plugin.
func TestWrongConfigurationsAreNamed(t *testing.T) {
	requireCaught(t, wrongPlain(), wrongEphemeral(), wrongRuntimeReadOnly(), wrongArguments())
}

type configChange func(*volumetest.Config[*testing.T])

// changed returns a configuration with a change.
func changed(config func() volumetest.Config[*testing.T], change configChange) func() volumetest.Config[*testing.T] {
	return func() volumetest.Config[*testing.T] {
		c := config()
		change(&c)
		return c
	}
}

func wrongPlain() map[string]broken {
	const hint = "; if a volume is a plain directory and no mount, set Config.Plain\n"
	directory := changed(greetingConfig, func(c *volumetest.Config[*testing.T]) { c.Plain = false })
	atPaths := changed(directory, func(c *volumetest.Config[*testing.T]) {
		c.New = func(_ *testing.T, _ volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
			return greetingsAtPaths{&greetings{mounter: mounter}}
		}
	})
	mounted := changed(fakeConfig, func(c *volumetest.Config[*testing.T]) { c.Plain = true })
	return map[string]broken{
		"directory":                   {directory, "SetUp", "one mount for one volume" + hint},
		"directory_at_path":           {atPaths, "Target", "one mount for one volume" + hint},
		"directory_mount_fails":       {directory, "MountFails", "the mount has failed" + hint},
		"directory_mount_hangs":       {directory, "MountHangs", "the mount hangs" + hint},
		"directory_mount_uncertain":   {directory, "MountUncertain", "the mount is uncertain" + hint},
		"directory_unmount_fails":     {directory, "UnmountFails", "unmount has failed" + hint},
		"directory_unmount_uncertain": {directory, "UnmountUncertain", "it is not known what is mounted: <nil>" + hint},
		"mount":                       {mounted, "SetUp", "a plain volume is no mount; if a volume is a mount, clear Config.Plain\n"},
	}
}

func wrongEphemeral() map[string]broken {
	const (
		deleted = "; if TearDown deletes the files of a volume, set Config.Ephemeral\n"
		kept    = "; if the files of a volume outlive TearDown, clear Config.Ephemeral\n"
	)
	ephemeral := changed(greetingConfig, func(c *volumetest.Config[*testing.T]) { c.Ephemeral = false })
	withBacking := changed(ephemeral, func(c *volumetest.Config[*testing.T]) {
		newPlugin, host := c.New, volume.VolumeHost(nil)
		c.New = func(t *testing.T, of volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
			host = of
			return newPlugin(t, of, mounter)
		}
		c.Backing = func(spec *volume.Spec) string {
			dir, _ := host.PodVolumeDir("pod-uid-1", (&greetings{}).GetPluginName(), spec.Name())
			return dir
		}
	})
	swept := func() volumetest.Config[*testing.T] {
		return wrapFake(func(fake *volumetest.FakePlugin, _ volume.VolumeHost) volume.VolumePlugin { return sweeping{fake} })
	}
	owners := actingPlugin{managed: true, before: actSequence(refuseBad, chown)}
	persistent := changed(fakeConfig, func(c *volumetest.Config[*testing.T]) { c.Ephemeral = true })
	return map[string]broken{
		"ephemeral_stray":       {ephemeral, "KeepsStrayData", "the directory cannot have been removed" + deleted},
		"ephemeral_backing":     {withBacking, "KeepsData", "TearDown has deleted a file" + deleted},
		"ephemeral_under_mount": {swept, "UnmountUncertain", "a file is under the mount: <nil>" + deleted},
		"ephemeral_read_only": {owners.config(volumetest.Arguments{FsGroup: volumetest.Honoured}), "FsGroup",
			"a read-only volume has changed owners or modes" + deleted},
		"persistent":          {persistent, "ForgetsData", "the pod has left files" + kept},
		"persistent_refused":  {writing{write: writeOnce, remove: refuseStray}.config, "PlantedLink", "a pod has left a file" + kept},
		"persistent_comes_up": {keepingConfig, "ForgetsData", "the last pod has left the directory" + kept},
	}
}

func wrongRuntimeReadOnly() map[string]broken {
	const runtime = "; if the mount in the container alone is read-only, set Config.RuntimeReadOnly\n"
	writable := changed(greetingConfig, func(c *volumetest.Config[*testing.T]) { c.RuntimeReadOnly = false })
	never := changed(writable, func(c *volumetest.Config[*testing.T]) {
		c.New = func(_ *testing.T, _ volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
			return neverWritable{&greetings{mounter: mounter}}
		}
	})
	readOnly := changed(fakeConfig, func(c *volumetest.Config[*testing.T]) { c.RuntimeReadOnly = true })
	return map[string]broken{
		"writable_claim": {writable, "ReadOnlyClaim", "a read-only volume is writable" + runtime},
		"writable_pod":   {writable, "ReadOnlyPod", "a read-only volume is writable" + runtime},
		"writable_later": {writable, "ReadOnlyLater", "a writable volume was set up to be read" + runtime},
		"never_writable": {never, "NewChangesNothing",
			"by its specification: false; if no volume of the plugin is writable, set Config.RuntimeReadOnly\n"},
		"read_only_later": {readOnly, "ReadOnlyLater",
			"a volume that is up was not set up to be read; if SetUp mounts such a volume read-only, clear Config.RuntimeReadOnly\n"},
	}
}

func wrongArguments() map[string]broken {
	const ignored, refused, honoured = volumetest.Ignored, volumetest.Refused, volumetest.Honoured
	all := func(h volumetest.Handling) volumetest.Arguments {
		return volumetest.Arguments{FsUser: h, FsGroup: h, DesiredSize: h, SELinuxLabel: h}
	}
	plugins := map[string]broken{}
	for _, name := range []string{"FsGroup", "DesiredSize", "SELinuxLabel"} {
		field := name + ", set Config.Arguments." + name + " to "
		for what, b := range map[string]broken{
			"ignored": {actingPlugin{}.config(all(refused)), name, "the argument was not refused; if the plugin ignores or honours " + field + "Ignored or Honoured\n"},
			"refused": {actingPlugin{before: refuse}.config(all(ignored)), name,
				"the argument is ignored; if the plugin refuses or honours " + field + "Refused or Honoured\n"},
			"refused_all": {actingPlugin{managed: true, before: actSequence(refuseBad, refuse)}.config(all(honoured)), name,
				"the argument is honoured; if the plugin refuses or ignores " + field + "Refused or Ignored\n"},
		} {
			plugins[name+"_"+what] = b
		}
	}
	const (
		group = "FsGroup, set Config.Arguments.FsGroup to "
		user  = "FsUser, set Config.Arguments.FsUser to "
	)
	plugins["FsGroup_has_effect"] = broken{actingPlugin{managed: true, before: chown}.config(all(ignored)), "FsGroup",
		"an ignored argument has an effect; if the plugin refuses or honours " + group + "Refused or Honoured\n"}
	plugins["FsGroup_managed"] = broken{actingPlugin{managed: true, before: refuse}.config(all(refused)), "FsGroup",
		"the volume is writable; if the plugin ignores or honours " + group + "Ignored or Honoured\n"}
	plugins["FsGroup_all_accepted"] = broken{actingPlugin{managed: true}.config(all(honoured)), "FsGroup",
		"an argument that cannot be was accepted; if the plugin refuses or ignores " + group + "Refused or Ignored\n"}
	plugins["FsGroup_no_effect"] = broken{actingPlugin{managed: true, before: refuseBad}.config(all(honoured)), "FsGroup",
		"; if the plugin refuses or ignores " + group + "Refused or Ignored\n"}
	plugins["FsGroup_may_not_write"] = broken{actingPlugin{managed: true, before: actSequence(refuseBad, chownOnly)}.config(all(honoured)), "FsGroup",
		"; if the plugin refuses or ignores " + group + "Refused or Ignored\n"}
	honoursGroup := changed(greetingConfig, func(c *volumetest.Config[*testing.T]) { c.Arguments.FsGroup = honoured })
	plugins["FsGroup_refused_by_greeting"] = broken{honoursGroup, "PlantedLink",
		"SetUp; if the plugin refuses or ignores " + group + "Refused or Ignored\n"}
	plugins["FsUser_ignored"] = broken{actingPlugin{managed: true}.config(all(honoured)), "FsUser",
		"an argument that cannot be was accepted; if the plugin ignores " + user + "Ignored\n"}
	plugins["FsUser_unlike_ignored"] = broken{actingPlugin{before: refuse}.config(all(ignored)), "FsUser",
		"the argument is ignored; if the plugin honours " + user + "Honoured\n"}
	if os.Geteuid() == 0 { // other users cannot give a file away
		plugins["FsUser_no_effect"] = broken{actingPlugin{managed: true, before: refuseBad}.config(all(honoured)), "FsUser",
			"; if the plugin ignores " + user + "Ignored\n"}
	}
	return plugins
}

// greetingsAtPaths is a plugin of directories that are torn down by path.
type greetingsAtPaths struct{ *greetings }

func (p greetingsAtPaths) NewUnmounterAt(path string) (volume.Unmounter, error) {
	return &greetingUnmounter{greetingDir{p.greetings, path}}, nil
}

// neverWritable is a plugin that says of each volume that it is read-only.
type neverWritable struct{ *greetings }

func (p neverWritable) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.greetings.NewMounter(spec, pod)
	return readingMounter{m}, err
}

type readingMounter struct{ volume.Mounter }

func (readingMounter) GetAttributes() volume.Attributes { return volume.Attributes{ReadOnly: true} }

// sweeping is a plugin of mounts that deletes files under an unmounted volume.
type sweeping struct{ *volumetest.FakePlugin }

func (p sweeping) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	u, err := p.FakePlugin.NewUnmounter(name, pod)
	return sweepingUnmounter{u}, err
}

type sweepingUnmounter struct{ volume.Unmounter }

func (u sweepingUnmounter) TearDown(ctx context.Context) error {
	err := u.Unmounter.TearDown(ctx)
	if errors.Is(err, syscall.ENOTEMPTY) {
		return os.RemoveAll(u.GetPath())
	}
	return err
}

// keepingConfig is of a plugin that shows the files of the last pod to the next one.
func keepingConfig() volumetest.Config[*testing.T] {
	store := ""
	move := func(from, to string) error {
		if err := os.Rename(from, to); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	left := func(file string) string { return filepath.Join(filepath.Dir(filepath.Dir(file)), "left") }
	config := writing{
		write:  func(file string) error { return move(store, left(file)) },
		remove: func(file string) error { return move(left(file), store) },
	}.config()
	newPlugin := config.New
	config.New = func(t *testing.T, host volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
		store = filepath.Join(t.TempDir(), "left")
		return newPlugin(t, host, mounter)
	}
	return config
}
