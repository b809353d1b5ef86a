package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/volumekit/volumekit/agents/internal/screen"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/rootlock"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/manager/manifests"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// An agent keeps the volumes of a directory of manifests.
type agent struct {
	options
	lock    *rootlock.Lock
	source  *manifests.Source
	manager *manager.Manager
	screen  *screen.Screen
	stdout  io.Writer
	hints   []string // for the user, at the beginning
}

func newAgent(ctx context.Context, o options, stdout io.Writer) (*agent, error) {
	// The root may be inside the directory; a mistyped directory must not be created.
	if _, err := os.ReadDir(o.manifests); err != nil {
		return nil, fmt.Errorf("-manifests: %w", err)
	}
	if err := os.MkdirAll(o.root, 0o755); err != nil {
		return nil, fmt.Errorf("-root: %w", err)
	}
	l, err := rootlock.New(o.root)
	if err != nil {
		return nil, err
	}
	a := &agent{options: o, lock: l, screen: screen.New(stdout), stdout: stdout}
	if err := a.build(ctx); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *agent) close() error { return a.lock.Close() }

func (a *agent) build(ctx context.Context) error {
	if err := (tokens{a.tokenFile}).check(); err != nil {
		return err
	}
	host, err := newHost(ctx, a.options)
	if err != nil {
		return err
	}
	keep, err := host.PluginDir("volumekit.io/manifests")
	if err != nil {
		return err
	}
	a.source, err = manifests.New(ctx, manifests.Config{
		Dir: a.manifests, Keep: keep, Node: host.NodeName(),
		Report: func(p manifests.Problem) { a.screen.Say("manifests: " + p.Error()) },
		ContentChanged: func(pods []types.UID) {
			for _, pod := range pods {
				a.manager.MarkRemountRequired(pod)
			}
		},
	})
	if err != nil {
		return err
	}
	mounter := mount.New(mount.Config{})
	plugins, err := a.plugins(ctx, host, mounter)
	if err != nil {
		return err
	}
	config := manager.Config{
		Plugins: plugins, Mounter: mounter, Pods: a.source, Claims: a.source, Events: a.screen.Event,
		NodeLabels: a.labels.ofNode(host.NodeName()),
		Refresh:    -1, // the source reports all changes
	}
	if a.tokenFile != "" {
		config.Refresh = 0 // except of the token file
	}
	a.manager, err = manager.New(config)
	return err
}

func newHost(ctx context.Context, o options) (*volume.Host, error) {
	if o.node == "" {
		return volume.NewHost(ctx, o.root)
	}
	return volume.NewHost(ctx, o.root, volume.WithNodeName(types.NodeName(o.node)))
}

func (a *agent) plugins(ctx context.Context, host volume.VolumeHost, mounter mount.Interface) (*volume.VolumePluginMgr, error) {
	content4 := content.Config{Mounter: mounter, ConfigMaps: a.source, Secrets: a.source, Tokens: tokens{a.tokenFile}}
	forHostPaths := mounter
	if a.devices {
		forHostPaths = mount.New(mount.Config{Allow: mount.Allow{Dev: true}})
	}
	return volume.NewVolumePluginMgr(ctx, host,
		local.New(local.Config{Mounter: mounter, Roots: a.disks, DeviceLinks: a.deviceLinks}),
		hostpath.New(hostpath.Config{Mounter: forHostPaths, Roots: a.hostPaths, Links: a.links}),
		nfs.New(nfs.Config{Mounter: mounter}),
		emptydir.New(emptydir.Config{Mounter: mounter}),
		content.NewConfigMap(content4), content.NewSecret(content4),
		content.NewDownwardAPI(content4), content.NewProjected(content4),
	)
}

// runLocked runs until ctx ends, or with -once until the desired state is reached. Then it calls
// last, if that is not nil, before it unlocks the root.
func (a *agent) runLocked(ctx context.Context, last func(context.Context) error) error {
	debug.SetGCPercent(25) // a node's memory is for its pods
	running, stop := context.WithCancel(a.screen.WithProgress(context.WithoutCancel(ctx)))
	defer stop()
	watched, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	ended := make(chan error, 2)
	for _, run := range []func(context.Context) error{a.manager.Run, a.source.Run} {
		go func() {
			err := run(running)
			fail(err)
			ended <- err
		}()
	}
	title := fmt.Sprintf("Keeping the volumes of the pods in %s, below %s. Process %d.", a.options.manifests, a.root, os.Getpid())
	a.screen.Begin(append([]string{title}, a.hints...)...)
	err := a.watch(watched)
	if last != nil {
		err = errors.Join(err, last(running))
	}
	stop()
	for range 2 {
		if failed := <-ended; !errors.Is(err, failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// watch displays the state until ctx ends, or with -once until the desired state is reached.
func (a *agent) watch(ctx context.Context) error {
	if !a.once {
		_ = a.screen.Follow(ctx, a.manager, a.source, func() bool {
			debug.FreeOSMemory() // there may be nothing to do for days
			return false
		})
		return nil // a signal is the end
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	if err := a.screen.Follow(ctx, a.manager, a.source, func() bool { return true }); err != nil {
		return screen.WithCauses(err, a.manager.State())
	}
	return a.problems()
}

var errTimeout = errors.New("the volumes are not as desired at the end of -timeout")

func (a *agent) problems() error {
	problems := a.source.Problems()
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%s in the manifests: %w", screen.Count(len(problems), "problem"), problems[0])
}
