package volumetest_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// A broken plugin breaks one promise of the contract, and one of the contract's tests must fail.
type broken struct {
	config func() volumetest.Config[*testing.T]
	test   string // of the contract
	says   string // in the test's output; empty: the plugin is not broken
}

// TestBrokenPluginsAreCaught runs the tests that must fail in processes of their own.
func TestBrokenPluginsAreCaught(t *testing.T) {
	requireCaught(t,
		brokenConfigs(), otherWays(), brokenLeaks(), brokenArguments(), brokenBlocks(), brokenExpansions(), brokenAttachers(),
		brokenProvisioners(), brokenRemounts(), brokenTargets(),
	)
}

// requireCaught runs the contract on each plugin in a process of its own, which repeats the calling test.
func requireCaught(t *testing.T, all ...map[string]broken) {
	t.Helper()
	const inside = "VOLUMETEST_BROKEN"
	for _, plugins := range all {
		for name, b := range plugins {
			t.Run(name, func(t *testing.T) {
				if os.Getenv(inside) != "" {
					volumetest.TestPlugin(t, b.config())
					return
				}
				t.Parallel()
				test, _, _ := strings.Cut(t.Name(), "/")
				run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$/^"+name+"$/^"+b.test+"$", "-test.v")
				run.Env = append(os.Environ(), inside+"=1")
				out, err := run.CombinedOutput()
				require.Contains(t, string(out), "/"+strings.TrimSuffix(b.test, ".*"), "the test of the contract did not run")
				require.Equal(t, b.says == "", err == nil, "%v\n%s", err, out)
				require.Contains(t, string(out), b.says)
			})
		}
	}
}

// brokenConfigs lack required fields.
func brokenConfigs() map[string]broken {
	without := func(change func(*volumetest.Config[*testing.T])) func() volumetest.Config[*testing.T] {
		return func() volumetest.Config[*testing.T] {
			config := fakeConfig()
			change(&config)
			return config
		}
	}
	return map[string]broken{
		"without_plugin": {without(func(c *volumetest.Config[*testing.T]) { c.New = nil }), "", "Config.New is needed"},
		"without_spec":   {without(func(c *volumetest.Config[*testing.T]) { c.Spec = nil }), "", "Config.Spec is needed"},
	}
}

// otherWays are plugins that unmount, and find mounts, in other correct ways.
func otherWays() map[string]broken {
	config := func() volumetest.Config[*testing.T] {
		config := fakeConfig()
		config.New = func(_ *testing.T, _ volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
			return volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: listing{mounter}})
		}
		return config
	}
	return map[string]broken{
		"lists":         {config, "UnmountFails", ""},
		"unmounts_tree": {config, "UnmountUncertain", ""},
		"of_devices":    {config, "DeviceMountFails", ""},
	}
}

// listing answers the fake plugin's queries by other calls.
type listing struct{ mount.Interface }

func (l listing) IsMountPoint(ctx context.Context, name string) (bool, error) {
	all, err := l.List(ctx)
	if err != nil {
		return false, err
	}
	if _, ok := mount.Table(all).At(filepath.ToSlash(name)); ok {
		return true, nil
	}
	_, err = os.Lstat(name)
	return false, err
}

func (l listing) Unmount(ctx context.Context, target string) error { return l.UnmountTree(ctx, target) }

// wrapFake returns the fake plugin's configuration for a plugin that wraps it.
func wrapFake(wrap func(*volumetest.FakePlugin, volume.VolumeHost) volume.VolumePlugin) volumetest.Config[*testing.T] {
	config := fakeConfig()
	config.New = func(_ *testing.T, host volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
		return wrap(volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter}), host)
	}
	return config
}

// brokenLeaks are plugins that leave entries in their own directory, which is a leak, too.
func brokenLeaks() map[string]broken {
	leaks := func(kept string) func() volumetest.Config[*testing.T] {
		return func() volumetest.Config[*testing.T] {
			config := wrapFake(func(fake *volumetest.FakePlugin, host volume.VolumeHost) volume.VolumePlugin {
				return &leaking{fake, host}
			})
			if kept != "" {
				config.Keeps = func(name string) bool { return strings.HasPrefix(name, kept) }
			}
			return config
		}
	}
	const says = "something is left of volumes that are gone"
	return map[string]broken{
		"leaks":                {leaks(""), "LeavesNothing", says},
		"leaks_and_says_other": {leaks("other"), "LeavesNothing", says},
		"keeps":                {leaks("left"), "LeavesNothing", ""},
	}
}

// leaking leaves a file for each volume.
type leaking struct {
	*volumetest.FakePlugin
	host volume.VolumeHost
}

func (p *leaking) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	own, err := p.host.PluginDir(p.GetPluginName())
	if err == nil {
		err = os.WriteFile(own+"/left-"+name, nil, 0o600)
	}
	if err != nil {
		return nil, err
	}
	return p.FakePlugin.NewUnmounter(name, pod)
}

// brokenArguments are plugins that handle arguments differently from their configurations.
func brokenArguments() map[string]broken {
	const ignored, refused, honoured = volumetest.Ignored, volumetest.Refused, volumetest.Honoured
	all := func(h volumetest.Handling) volumetest.Arguments {
		return volumetest.Arguments{FsUser: h, FsGroup: h, DesiredSize: h, SELinuxLabel: h}
	}
	plugins := map[string]broken{}
	for _, arg := range []string{"FsUser", "FsGroup", "DesiredSize", "SELinuxLabel"} {
		add := func(name string, says volumetest.Handling, does actingPlugin, text string) {
			does.managed = does.managed || says == honoured
			plugins[arg+"_"+name] = broken{does.config(all(says)), arg, text}
		}
		if arg == "FsUser" {
			add("not_mentioned", refused, actingPlugin{}, "")
			add("refused", refused, actingPlugin{before: refuse}, "it is up, and the argument is ignored")
		} else {
			add("not_mentioned", refused, actingPlugin{}, "the argument was not refused")
			add("refused", refused, actingPlugin{before: refuse}, "")
			add("refused_too_late", refused, actingPlugin{before: makeDirs, after: refuse}, "a refused argument changed something")
			add("given_and_refused", refused, actingPlugin{before: actSequence(chown, refuse)}, "a refused argument changed owners or modes")
		}
		add("refused_and_said_to_be_ignored", ignored, actingPlugin{before: refuse}, "it is up, and the argument is ignored")
		if arg != "SELinuxLabel" {
			add("anything", honoured, actingPlugin{}, "an argument that cannot be was accepted")
		}
	}
	add := func(name, test string, does actingPlugin, text string) {
		plugins[name] = broken{does.config(all(honoured)), test, text}
	}
	plugins["given_and_said_to_be_ignored"] = broken{
		actingPlugin{managed: true, before: chown}.config(all(ignored)), "FsGroup", "an ignored argument has an effect"}
	if os.Geteuid() == 0 { // other users cannot give a file away
		add("not_given_to_a_user", "FsUser", actingPlugin{managed: true, before: refuseBad}, "is not of user")
	}
	add("not_given_to_a_group", "FsGroup", actingPlugin{managed: true, before: refuseBad}, "group")
	add("group_may_not_write", "FsGroup", actingPlugin{managed: true, before: actSequence(refuseBad, chownOnly)}, "is not for the group")
	add("given", "FsGroup", actingPlugin{managed: true, before: actSequence(refuseBad, chownUnlessReadOnly)}, "")
	add("given_and_not_said_so", "FsGroup", actingPlugin{before: actSequence(refuseBad, chownUnlessReadOnly)}, "GetAttributes about ownership")
	add("given_read-only", "FsGroup", actingPlugin{managed: true, before: actSequence(refuseBad, chown)}, "a read-only volume has changed owners or modes")
	add("given_and_bad_refused_late", "FsGroup", actingPlugin{managed: true, before: actSequence(chown, refuseBad)}, "an argument that cannot be changed owners or modes")
	plugins["too_large"] = broken{func() volumetest.Config[*testing.T] {
		config := actingPlugin{managed: true, before: refuseBad}.config(all(honoured))()
		config.NewMounter = func(*testing.T) mount.Interface { return kernel{mounttest.NewFake(mount.Config{})} }
		fake := config.New
		config.New = func(t *testing.T, host volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
			plugin := fake(t, host, mounter).(*actingPlugin)
			plugin.capacity = 1 << 30
			return plugin
		}
		return config
	}, "DesiredSize", "the volume is larger than asked; if the plugin refuses or ignores DesiredSize"}
	return plugins
}

// A kernel is a fake that the contract treats as real.
type kernel struct{ mount.Interface }

// An act is a plugin's handling of arguments.
type act func(spec *volume.Spec, path string, args volume.MounterArgs) error

func actSequence(first, second act) act {
	return func(spec *volume.Spec, path string, args volume.MounterArgs) error {
		if err := first(spec, path, args); err != nil {
			return err
		}
		return second(spec, path, args)
	}
}

func hasOwners(a volume.MounterArgs) bool {
	return a.FsUser != nil || a.FsGroup != nil || a.DesiredSize != nil || a.SELinuxLabel != ""
}

func refuse(_ *volume.Spec, _ string, args volume.MounterArgs) error {
	if hasOwners(args) {
		return volume.ErrNotSupported
	}
	return nil
}

func refuseBad(_ *volume.Spec, _ string, args volume.MounterArgs) error {
	if args.DesiredSize != nil {
		if size, err := quantity.Bytes(args.DesiredSize); err != nil || size < 0 {
			return errors.New("not a size")
		}
	}
	for _, id := range []*int64{args.FsUser, args.FsGroup} {
		if id != nil && (*id < 0 || *id >= 1<<32-1) {
			return errors.New("not an ID")
		}
	}
	return nil
}

func makeDirs(_ *volume.Spec, path string, _ volume.MounterArgs) error {
	return os.MkdirAll(filepath.Dir(path)+"/left", 0o750)
}

func chown(spec *volume.Spec, _ string, args volume.MounterArgs) error {
	return chownTo(spec, args, func(root *os.Root, name string, dir bool) error {
		if dir {
			return root.Chmod(name, fs.ModeSetgid|0o770)
		}
		return root.Chmod(name, 0o660)
	})
}

func chownUnlessReadOnly(spec *volume.Spec, path string, args volume.MounterArgs) error {
	if spec.IsReadOnly() {
		return nil
	}
	return chown(spec, path, args)
}

func chownOnly(spec *volume.Spec, _ string, args volume.MounterArgs) error {
	return chownTo(spec, args, func(*os.Root, string, bool) error { return nil })
}

// chownTo changes owners and modes within the volume's directory.
func chownTo(spec *volume.Spec, args volume.MounterArgs, chmod func(root *os.Root, name string, dir bool) error) error {
	if !hasOwners(args) {
		return nil
	}
	root, err := os.OpenRoot(spec.PersistentVolume.Spec.CSI.VolumeHandle)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() == fs.ModeSymlink {
			return err
		}
		if args.FsGroup != nil && *args.FsGroup >= 0 && *args.FsGroup < 1<<31 {
			if err := root.Lchown(name, -1, int(*args.FsGroup)); err != nil {
				return err
			}
		}
		return chmod(root, name, entry.IsDir())
	})
}

// An actingPlugin runs acts before and after a volume is set up.
type actingPlugin struct {
	*volumetest.FakePlugin
	before, after act
	managed       bool
	capacity      int64 // 0: unchanged
}

func (p actingPlugin) config(arguments volumetest.Arguments) func() volumetest.Config[*testing.T] {
	return func() volumetest.Config[*testing.T] {
		config := wrapFake(func(fake *volumetest.FakePlugin, _ volume.VolumeHost) volume.VolumePlugin {
			p.FakePlugin = fake
			return &p
		})
		config.Arguments = arguments
		return config
	}
}

func (p *actingPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	if err != nil {
		return nil, err
	}
	return &actingMounter{m, p, spec}, nil
}

type actingMounter struct {
	volume.Mounter
	plugin *actingPlugin
	spec   *volume.Spec
}

func (m *actingMounter) GetAttributes() volume.Attributes {
	a := m.Mounter.GetAttributes()
	a.Managed = m.plugin.managed
	return a
}

func (m *actingMounter) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	metrics, err := m.Mounter.GetMetrics(ctx)
	if err == nil && m.plugin.capacity > 0 {
		metrics.Capacity.Set(m.plugin.capacity)
	}
	return metrics, err
}

func (m *actingMounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	for _, do := range []act{m.plugin.before, m.plugin.after} {
		if do == nil {
			continue
		}
		if err := do(m.spec, m.GetPath(), args); err != nil {
			return err
		}
	}
	return m.Mounter.SetUp(ctx, args)
}
