package manifests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/dirwatch"
	"github.com/volumekit/volumekit/internal/notfound"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Config configures a [Source]. Only Dir is required.
type Config struct {
	// Dir is the directory of manifests. It need not exist yet: see Pods.
	Dir string
	// Keep is a directory for the last valid content of the files, secrets included. It
	// is created, accessible to its owner alone, and must not be Dir. Only files in it
	// whose names end in ".kept" are read, written and removed. Empty: the last valid
	// content is lost when the program ends, and a file that is invalid after that counts
	// as missing.
	Keep string
	// Node is the name of this node, from which the UIDs of pods are computed.
	Node types.NodeName

	// Settle is the time for which a file must be unchanged before it is read, and for
	// which a file must be missing before its pods are removed: some editors move a file
	// away before they write it anew. 0: 100 ms.
	Settle time.Duration
	// Poll is the interval of reading a directory that cannot be watched: on other
	// systems than Linux, and while it is missing; 0: 2 s.
	Poll time.Duration

	// Report receives each problem once, when it occurs. It must not call the source.
	// Nil: no reports; see [Source.Problems].
	Report func(Problem)
	// ContentChanged receives the pods that have a volume with changed content, for
	// manager.Manager.MarkRemountRequired. It must not block, nor call the source. If all
	// pods are passed on, the manager needs no periodic refresh:
	// manager.Config.Refresh may be less than 0. Nil: no reports.
	ContentChanged func(pods []types.UID)
}

// A Source has the pods of a directory of manifests, with their claims, volumes and content.
// It is a [manager.IncrementalPodSource] and a [volume.ClaimReader]: set it as Pods and Claims of
// manager.Config. [New] returns one: the zero value has nothing, and its methods return a
// [*field.Error]. All methods are safe for concurrent use; callers must not change
// the returned objects.
type Source struct {
	config  Config
	copies  copyStore
	watch   func(ctx context.Context, dir string, changed dirwatch.Func) error
	changed chan struct{}

	reading  keylock.Map // locked, for "", by the call that reads the directory; before mu
	watching keylock.Map // locked, for "", by the call that watches it

	mu          sync.Mutex
	files       map[string]file
	current     *objects // nil: the directory was never read
	problems    []Problem
	subscribers map[*func(manager.Change)]bool
	isFailed    bool      // the last read of the directory failed
	firstRead   time.Time // of the first read
}

// New returns a source. It returns an error if Dir is empty, if Dir and Keep are one
// directory, or if a file system has not answered when ctx ends. A missing directory is no
// error.
func New(ctx context.Context, config Config) (*Source, error) {
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("manifests: %w", err)
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
	if same, err := isSameInTime(ctx, config.Keep, config.Dir); err != nil {
		return nil, fmt.Errorf("manifests: Config.Keep: %w", err)
	} else if same {
		return nil, fmt.Errorf("manifests: %w", field.Invalid(configPath.Child("Keep"), brief.Name(config.Keep), "must not be Config.Dir"))
	}
	return &Source{
		config: config, copies: copyStore(config.Keep), watch: dirwatch.Watch,
		changed: make(chan struct{}, 1), files: map[string]file{},
	}, nil
}

var configPath = field.NewPath("Config")

// errNoDir is a *field.Error.
var errNoDir error = field.Required(configPath.Child("Dir"), "a source reads a directory")

func (c Config) check() error {
	switch {
	case c.Dir == "":
		return errNoDir
	case c.Settle < 0:
		return field.Invalid(configPath.Child("Settle"), c.Settle.String(), "must be at least 0")
	case c.Poll < 0:
		return field.Invalid(configPath.Child("Poll"), c.Poll.String(), "must be at least 0")
	}
	return nil
}

// comparing locks directories while New compares them.
var comparing keylock.Map

func isSameInTime(ctx context.Context, keep, dir string) (bool, error) {
	if keep == "" {
		return false, nil
	}
	same, _, err := keylock.Await(ctx, comparing.Key(keep), ctxend.Kernel, func() (bool, error) { return isSame(keep, dir), nil }, nil)
	return same, err
}

// isSame reports whether both names lead to one directory, also by a link, or will when it
// is created.
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

// Pods returns the pods, sorted by namespace and name. It reads the directory if it has not
// been read yet. Until the first successful read, an unreadable directory is an error, and
// so is an invalid file whose copy in [Config.Keep] is invalid, too, until one of the two is
// mended or removed. Pods waits a few seconds for files that are being written. If ctx ends
// first, the error wraps ctx.Err() and the cause.
func (s *Source) Pods(ctx context.Context) ([]*v1.Pod, error) {
	current, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Clone(current.pods), nil
}

// Pod returns a pod by its UID.
func (s *Source) Pod(ctx context.Context, uid types.UID) (*v1.Pod, error) {
	current, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	pod := current.byUID[uid]
	if pod == nil {
		return nil, notfound.Object("pod " + strconv.Quote(brief.Name(string(uid))))
	}
	return pod, nil
}

// GetPersistentVolumeClaim returns a claim, bound if there is a volume for it. The error of a
// missing claim wraps fs.ErrNotExist, as in all methods for one object.
func (s *Source) GetPersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	current, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	return objectNamed(current.claims, "PersistentVolumeClaim", namespace, name)
}

// GetPersistentVolume returns a volume.
func (s *Source) GetPersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	current, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	return objectNamed(current.volumes, "PersistentVolume", "", name)
}

// GetConfigMap returns a ConfigMap. With GetSecret it serves package content.
func (s *Source) GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	current, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	return objectNamed(current.configMaps, "ConfigMap", namespace, name)
}

// GetSecret returns a Secret, with its stringData merged into its data.
func (s *Source) GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	current, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	return objectNamed(current.secrets, "Secret", namespace, name)
}

// objectNamed returns the object of a name; if it is missing, an error that wraps fs.ErrNotExist.
func objectNamed[T any](all map[types.NamespacedName]T, kind, namespace, name string) (T, error) {
	object, ok := all[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		return object, notfound.Object(kind + " " + strconv.Quote(brief.Name(types.NamespacedName{Namespace: namespace, Name: name}.String())))
	}
	return object, nil
}

// Changed returns a channel that receives a value after each change, while Run runs.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// Problems returns the current problems, sorted by file.
func (s *Source) Problems() []Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems)
}

// objects returns the current objects, after a first read.
func (s *Source) objects(ctx context.Context) (*objects, error) {
	if s.config.Dir == "" {
		return nil, fmt.Errorf("manifests: %w", errNoDir)
	}
	for {
		s.mu.Lock()
		current := s.current
		s.mu.Unlock()
		if current != nil {
			return current, nil
		}
		wait, err := s.readInTime(ctx)
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
