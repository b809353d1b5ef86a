package manifests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Config is what a [Source] needs. Only Dir is required.
type Config struct {
	// Dir is the directory. It may be missing for now: see Pods.
	Dir string
	// Keep is a directory for the last good content of the files, secrets included.
	// It is created, for its owner alone, and is not Dir. Of what is in it only files
	// whose name ends in ".kept" are read, written and removed.
	// Empty: what was last good is forgotten when the program ends, and a file that
	// is broken after that counts as missing.
	Keep string
	// Node is the name of this node, which the UIDs of pods follow from.
	Node types.NodeName

	// Settle is how long nobody must have written to a file before it is read, and
	// how long one must be missing before its pods go: some editors move a file away
	// before they write it anew. 0: 100 ms.
	Settle time.Duration
	// Poll is how often the directory is looked at where nobody tells of changes in
	// it: on other systems than Linux, and while it is missing; 0: 2 s.
	Poll time.Duration

	// Report is told of each problem once, when it turns up. It must not call the
	// source. Nil: nobody is; see [Source.Problems].
	Report func(Problem)
	// ContentChanged is told which pods have a volume with content that has changed:
	// manager.Manager.MarkRemountRequired is for them. It must not wait, nor call the
	// source. Whoever passes all of it on needs no look from time to time:
	// manager.Config.Refresh may be less than 0. Nil: nobody is told.
	ContentChanged func(pods []types.UID)
}

// A Source has the pods of a directory of manifests, and all that belongs to them. It
// is a manager.Source. Make one with [New]. All methods are safe for concurrent use;
// what they return is nobody's to change.
type Source struct {
	config  Config
	keep    keep
	watch   func(ctx context.Context, dir string, changed func()) error
	changed chan struct{}

	reading sync.Mutex // one reads the directory at a time; before mu

	mu       sync.Mutex
	files    map[string]file
	current  *objects // nil: the directory was never read
	problems []Problem
	isFailed bool      // the directory could not be read last
	begun    time.Time // when it was first tried
}

// New returns a source. A directory without a name is an error, as is one for both Dir
// and Keep; one that is missing is not.
func New(config Config) (*Source, error) {
	switch {
	case config.Dir == "":
		return nil, errors.New("manifests: Config.Dir is missing")
	case config.Settle < 0, config.Poll < 0:
		return nil, errors.New("manifests: Config: Settle and Poll are not less than 0")
	}
	if config.Settle == 0 {
		config.Settle = 100 * time.Millisecond
	}
	if config.Poll == 0 {
		config.Poll = 2 * time.Second
	}
	if config.Report == nil {
		config.Report = func(Problem) {}
	}
	if config.ContentChanged == nil {
		config.ContentChanged = func([]types.UID) {}
	}
	var err error
	if config.Dir, err = filepath.Abs(config.Dir); err != nil {
		return nil, fmt.Errorf("manifests: Config.Dir: %w", err)
	}
	if config.Keep != "" && isSame(config.Keep, config.Dir) {
		return nil, fmt.Errorf("manifests: Config.Keep %q is Config.Dir", short(config.Keep))
	}
	return &Source{
		config: config, keep: keep(config.Keep), watch: watch,
		changed: make(chan struct{}, 1), files: map[string]file{},
	}, nil
}

// isSame reports whether both name one directory, also by a link, or will.
func isSame(name, dir string) bool {
	if abs, err := filepath.Abs(name); err == nil && abs == dir {
		return true
	}
	a, err := os.Stat(name)
	if err != nil {
		return false
	}
	b, err := os.Stat(dir)
	return err == nil && os.SameFile(a, b)
}

// Pods returns the pods, sorted by namespace and name. It reads the directory if that
// has not been read yet; one that cannot be is an error until it can be. So is, until
// then, a file that is broken while its copy in [Config.Keep] is, too: until one of
// them is mended or removed. Some seconds it waits for files that are just being
// written.
func (s *Source) Pods(ctx context.Context) ([]*v1.Pod, error) {
	current, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Clone(current.pods), nil
}

// PersistentVolumeClaim returns a claim, bound if there is a volume for it. The error
// wraps fs.ErrNotExist if there is none, as those of all methods for one object.
func (s *Source) PersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	current, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	return get(current.claims, "PersistentVolumeClaim", namespace, name)
}

// PersistentVolume returns a volume.
func (s *Source) PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	current, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	return get(current.volumes, "PersistentVolume", "", name)
}

// GetConfigMap returns a config map. It is what package content asks, as GetSecret is.
func (s *Source) GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	current, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	return get(current.configMaps, "ConfigMap", namespace, name)
}

// GetSecret returns a secret, with its stringData in its data.
func (s *Source) GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	current, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	return get(current.secrets, "Secret", namespace, name)
}

func get[T any](all map[types.NamespacedName]T, kind, namespace, name string) (T, error) {
	object, ok := all[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		return object, fmt.Errorf("%s %q: %w", kind, short(types.NamespacedName{Namespace: namespace, Name: name}.String()), fs.ErrNotExist)
	}
	return object, nil
}

// Changed returns a channel that gets a value after something has changed, while Run
// runs.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// Problems returns what is wrong now, sorted by file.
func (s *Source) Problems() []Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems)
}

// objects returns what was read last.
func (s *Source) objects(ctx context.Context) (*objects, error) {
	for {
		s.mu.Lock()
		current := s.current
		s.mu.Unlock()
		if current != nil {
			return current, nil
		}
		wait, err := s.read()
		switch {
		case !errors.Is(err, errUnsettled):
			if err != nil {
				return nil, err
			}
		case sleep(ctx, wait) != nil:
			return nil, context.Cause(ctx)
		}
	}
}

func sleep(ctx context.Context, long time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long):
		return nil
	}
}
