package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// A Result is the outcome of handling a key without a failure.
type Result struct {
	// After is the pause until the key is handled again. 0: only when the key is added again.
	After time.Duration
}

// A Config configures a [Pool]. Name and Handle are required; the zero value of every other field
// selects its default.
type Config[K comparable] struct {
	// Name names the controller in logs.
	Name string
	// Handle reconciles a key: it moves the actual state towards the desired state. Workers call it
	// concurrently, for different keys. It returns soon after ctx, the context of Run, ends.
	Handle func(ctx context.Context, key K) (Result, error)
	// Denied is called for a failure that is a denial by the API server, once for each text in a row, from
	// the worker of the key. Nil: not called.
	Denied func(key K, err error)
	// Workers is the number of keys that are handled at the same time. 0: 4.
	Workers int
	// Backoff is the pause after the first failure of a key; the pause doubles with each further
	// failure, up to MaxBackoff. 0: 500 ms and 5 minutes. A MaxBackoff below Backoff counts as
	// Backoff.
	Backoff, MaxBackoff time.Duration
	// Logger receives failures. Nil: discarded.
	Logger *slog.Logger
}

func (c *Config[K]) check() error {
	switch {
	case c.Name == "":
		return errors.New("workers: Name must not be empty")
	case c.Handle == nil:
		return errors.New("workers: Handle must not be nil")
	case c.Workers < 0:
		return fmt.Errorf("workers: Workers must be at least 0, got %d", c.Workers)
	case c.Backoff < 0 || c.MaxBackoff < 0:
		return fmt.Errorf("workers: Backoff and MaxBackoff must be at least 0, got %v and %v", c.Backoff, c.MaxBackoff)
	}
	c.Workers = cmp.Or(c.Workers, 4)
	c.Backoff = cmp.Or(c.Backoff, 500*time.Millisecond)
	c.MaxBackoff = max(c.Backoff, cmp.Or(c.MaxBackoff, 5*time.Minute))
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return nil
}

// A Pool handles keys with a number of workers. Its methods are safe for concurrent use.
type Pool[K comparable] struct {
	config     Config[K]
	priorities *priorities[K]
	queue      *workqueue.Typed[K]

	mu     sync.Mutex
	tries  map[K]tries  // keys whose last handling failed
	delays map[K]*delay // keys that are to be added later
	busy   map[K]bool   // keys that are being handled; true: a replay has come meanwhile
	ran    bool
}

// New returns a pool, which handles keys only during Run. Keys may be added before. New returns an
// error for an invalid configuration.
func New[K comparable](config Config[K]) (*Pool[K], error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	p := &Pool[K]{config: config, priorities: newPriorities[K](), tries: map[K]tries{}, delays: map[K]*delay{}, busy: map[K]bool{}}
	// Without a name the queue has no metrics, and no goroutine that updates them.
	p.queue = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Queue: p.priorities})
	return p, nil
}

// Add queues a key as news. A key that waits as a replay becomes news. Add does not block.
func (p *Pool[K]) Add(key K) {
	p.priorities.note(key)
	p.queue.Add(key)
}

// AddReplay queues a key as a replay. A key in backoff keeps its pause, and so does one whose present turn fails: a
// replay is no reason to expect another outcome, and a resync would retry all failing keys at once. AddReplay does
// not block.
func (p *Pool[K]) AddReplay(key K) {
	if !p.keepReplay(key) {
		p.queue.Add(key)
	}
}

// Len returns the number of keys that wait for a worker. Keys in backoff, and keys that wait for
// the end of Result.After, do not count.
func (p *Pool[K]) Len() int { return p.queue.Len() }

// Run handles keys until ctx ends; then it returns nil, and all workers and timers have ended. Keys
// in the queue at that time, and keys that are added later, are dropped. A second call returns an
// error.
func (p *Pool[K]) Run(ctx context.Context) error {
	if err := p.start(); err != nil {
		return err
	}
	end := context.AfterFunc(ctx, p.queue.ShutDown)
	defer end()
	var workers sync.WaitGroup
	for range p.config.Workers {
		workers.Go(func() { p.work(ctx) })
	}
	workers.Wait()
	p.stopDelays()
	return nil
}

// start returns an error if Run was called before.
func (p *Pool[K]) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ran {
		return fmt.Errorf("%s: Run may be called once", p.config.Name)
	}
	p.ran = true
	return nil
}

// work handles keys until the queue is shut down.
func (p *Pool[K]) work(ctx context.Context) {
	for {
		key, ended := p.queue.Get()
		if ended {
			return
		}
		if ctx.Err() == nil {
			p.handle(ctx, key)
		}
		p.queue.Done(key)
	}
}

// handle handles a key and plans its next turn.
func (p *Pool[K]) handle(ctx context.Context, key K) {
	p.begin(key)
	result, err := p.call(ctx, key)
	if ctx.Err() != nil {
		return
	}
	p.plan(key, result, err)
	if p.end(key) {
		p.queue.Add(key)
	}
}

// A panicError is a panic of the handle function, with its stack.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// call calls Handle and returns a panic as an error.
func (p *Pool[K]) call(ctx context.Context, key K) (result Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{r, debug.Stack()}
		}
	}()
	return p.config.Handle(ctx, key)
}
