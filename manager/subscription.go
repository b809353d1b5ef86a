package manager

import (
	"context"
	"io/fs"
	"reflect"

	"github.com/volumekit/volumekit/manager/internal/plugincall"
	"github.com/volumekit/volumekit/manager/internal/reading"
	v1 "k8s.io/api/core/v1"
)

// subscribe subscribes to the notifiers among Config.Pods and Config.Claims. It returns the
// channel of pods that are not incremental, or nil.
func (m *Manager) subscribe(news *reading.PendingChanges) (changed <-chan struct{}, unsubscribe func(), err error) {
	var ends []func()
	unsubscribe = func() {
		for _, end := range ends {
			end()
		}
	}
	defer func() {
		if err != nil {
			unsubscribe()
		}
	}()
	defer plugincall.RecoverPanic(&err)
	for _, notifier := range m.config.notifiers() {
		end := notifier.Subscribe(func(change Change) {
			news.Add(change.set())
			m.wakeLoop()
		})
		if end != nil {
			ends = append(ends, end)
		}
	}
	if _, ok := m.config.Pods.(IncrementalPodSource); !ok {
		changed = m.config.Pods.Changed()
	}
	return changed, unsubscribe, nil
}

// notifiers returns the notifiers among Pods and Claims, each once.
func (c *Config) notifiers() (all []ChangeNotifier) {
	if pods, ok := c.Pods.(IncrementalPodSource); ok {
		all = append(all, pods)
	}
	claims, ok := c.Claims.(ChangeNotifier)
	if ok && !(len(all) > 0 && reflect.ValueOf(claims).Comparable() && any(claims) == any(c.Pods)) {
		all = append(all, claims)
	}
	return all
}

// noClaims has no claims.
type noClaims struct{}

func (noClaims) GetPersistentVolumeClaim(context.Context, string, string) (*v1.PersistentVolumeClaim, error) {
	return nil, errNoClaims
}

func (noClaims) GetPersistentVolume(context.Context, string) (*v1.PersistentVolume, error) {
	return nil, errNoClaims
}

var errNoClaims error = noClaimsError{}

// A noClaimsError is the error of a missing object, as no other one exists.
type noClaimsError struct{}

func (noClaimsError) Error() string { return "manager: Config.Claims is nil" }

func (noClaimsError) Unwrap() error { return fs.ErrNotExist }

// set returns the change as a set of refs.
func (c Change) set() (changes reading.ChangeSet) {
	changes.Everything = c.Everything
	changes.AddPods(c.Pods...)
	for _, claim := range c.Claims {
		changes.AddRefs(reading.ClaimRef(claim.Namespace, claim.Name))
	}
	for _, name := range c.Volumes {
		changes.AddRefs(reading.VolumeRef(name))
	}
	return changes
}

// readerConfig returns the configuration of a reader of Config.Pods and Config.Claims.
func (m *Manager) readerConfig(spawn func(work func())) reading.Config {
	config := reading.Config{
		Pods: m.config.Pods.Pods, Claims: m.config.Claims, Timeout: m.config.SourceTimeout,
		Spawn: spawn, Late: m.wakeLoop,
	}
	if pods, ok := m.config.Pods.(IncrementalPodSource); ok {
		config.Pod = pods.Pod
	}
	return config
}
