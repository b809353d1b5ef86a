package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/hostpath"
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
	lock    lock
	source  *manifests.Source
	manager *manager.Manager
	screen  *screen
	hints   []string // to the user, at the beginning
}

func newAgent(o options, stdout io.Writer) (*agent, error) {
	// The root may be in it, and a mistyped one is not to be made.
	if _, err := os.ReadDir(o.manifests); err != nil {
		return nil, fmt.Errorf("-manifests: %w", err)
	}
	if err := os.MkdirAll(o.root, 0o755); err != nil {
		return nil, fmt.Errorf("-root: %w", err)
	}
	l, err := newLock(o.root)
	if err != nil {
		return nil, err
	}
	a := &agent{options: o, lock: l, screen: newScreen(stdout)}
	if err := a.build(); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *agent) close() error { return a.lock.Close() }

func (a *agent) build() error {
	host, err := volume.NewHost(a.root)
	if err != nil {
		return err
	}
	keep, err := host.PluginDir("volumekit.io/manifests")
	if err != nil {
		return err
	}
	a.source, err = manifests.New(manifests.Config{
		Dir: a.manifests, Keep: keep, Node: host.NodeName(),
		Report: a.screen.problem,
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
	plugins, err := a.plugins(host, mounter)
	if err != nil {
		return err
	}
	a.manager, err = manager.New(manager.Config{
		Plugins: plugins, Host: host, Mounter: mounter, Source: a.source, Events: a.screen.event,
		Refresh: -1, // the source tells of all that changes
	})
	return err
}

func (a *agent) plugins(host volume.VolumeHost, mounter mount.Interface) (*volume.VolumePluginMgr, error) {
	content4 := content.Config{Mounter: mounter, ConfigMaps: a.source, Secrets: a.source}
	return volume.NewVolumePluginMgr(host,
		local.New(local.Config{Mounter: mounter, Roots: a.disks}),
		hostpath.New(hostpath.Config{Mounter: mounter, Roots: a.hostPaths}),
		nfs.New(nfs.Config{Mounter: mounter}),
		emptydir.New(emptydir.Config{Mounter: mounter}),
		content.NewConfigMap(content4), content.NewSecret(content4),
		content.NewDownwardAPI(content4), content.NewProjected(content4),
	)
}

// work runs until ctx ends, or with -once until all is as desired. Then it calls last,
// if that is not nil, before it lets go.
func (a *agent) work(ctx context.Context, last func(context.Context) error) error {
	debug.SetGCPercent(25) // a node's memory is for its pods
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- a.manager.Run(running) }()
	go func() { ended <- a.source.Run(running) }()
	title := fmt.Sprintf("Keeping the volumes of the pods in %s, below %s. Process %d.", a.options.manifests, a.root, os.Getpid())
	a.screen.begin(append([]string{title}, a.hints...)...)
	err := a.watch(ctx, ended)
	if last != nil {
		err = errors.Join(err, last(running))
	}
	stop()
	for range 2 {
		if failed := <-ended; !errors.Is(failed, context.Canceled) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// watch shows what happens. It looks at the state after something has happened, until
// all is as desired, and then sleeps.
func (a *agent) watch(ctx context.Context, ended chan error) error {
	if a.once {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.timeout, errTimeout)
		defer cancel()
	}
	const pace = 100 * time.Millisecond
	look := time.NewTimer(pace)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			a.showLast(ctx)
			return a.unfinished(ctx)
		case err := <-ended:
			ended <- context.Canceled
			return err
		case line := <-a.screen.lines:
			a.screen.show(line)
			look.Reset(pace)
		case <-a.screen.resized:
			a.screen.draw(ctx, a.manager.State(), a.source)
		case <-look.C:
			state := a.manager.State()
			a.screen.draw(ctx, state, a.source)
			if !isSettled(state) {
				look.Reset(pace)
			} else if a.once {
				a.showLast(ctx)
				return a.problems()
			} else {
				debug.FreeOSMemory() // there may be nothing to do for days
			}
		}
	}
}

func (a *agent) showLast(ctx context.Context) {
	a.screen.flush()
	a.screen.draw(ctx, a.manager.State(), a.source)
}

// mounted is what the manager says of a volume that is as it should be.
const mounted = "mounted"

// isSettled reports whether all is as desired.
func isSettled(s manager.State) bool {
	if !s.Restored || !s.Populated || len(s.Failed) > 0 {
		return false
	}
	for _, v := range s.Volumes {
		if v.Operation != "" || v.Err != nil || len(v.Pods) == 0 {
			return false
		}
		for _, pod := range v.Pods {
			if pod.Phase() != mounted || pod.Waits != nil {
				return false
			}
		}
	}
	return true
}

// cause is why a pod's volume is not as desired, as far as that is known: what failed for
// the pod, or for all, or what has to happen first.
func cause(v manager.VolumeState, pod manager.PodState) error {
	for _, err := range []error{pod.Err, v.Err} {
		if err != nil {
			return err
		}
	}
	return pod.Waits
}

var errTimeout = errors.New("not all is as desired, and the time of -timeout is over")

// unfinished returns why -once has not come to its end. Without it an interrupt is one.
func (a *agent) unfinished(ctx context.Context) error {
	if !a.once {
		return nil
	}
	return withCauses(context.Cause(ctx), a.manager.State())
}

func withCauses(err error, state manager.State) error {
	for _, f := range state.Failed {
		err = fmt.Errorf("%w; volume %s: %w", err, f.Name, f.Err)
	}
	for _, v := range state.Volumes {
		for _, pod := range podsOf(v) {
			if why := cause(v, pod); why != nil {
				err = fmt.Errorf("%w; volume %s: %w", err, pod.Name, why)
			}
		}
	}
	return err
}

// podsOf returns the pods of a volume; for one that no pod has any more, nobody.
func podsOf(v manager.VolumeState) []manager.PodState {
	if len(v.Pods) == 0 {
		return []manager.PodState{{Name: string(v.Unique)}}
	}
	return v.Pods
}

func (a *agent) problems() error {
	problems := a.source.Problems()
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%s in the manifests: %w", count(len(problems), "problem"), problems[0])
}
