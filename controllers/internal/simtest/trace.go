package simtest

import (
	"fmt"
	"sync"
	"time"
)

// A Trace records the steps and the failures of a seed. Its methods are safe for concurrent use. New
// returns one.
type Trace struct {
	began time.Time

	mu       sync.Mutex
	lines    []string
	failures []string
}

// NewTrace returns an empty trace whose times begin now.
func NewTrace() *Trace { return &Trace{began: time.Now()} }

// Log adds a line with the time since the begin. Lines of the code under test begin with two spaces.
func (t *Trace) Log(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, time.Since(t.began).Round(time.Millisecond).String()+" "+fmt.Sprintf(format, args...))
}

// Fail adds a failure.
func (t *Trace) Fail(format string, args ...any) {
	t.Log("  VIOLATION: "+format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

// HasFailed reports whether the trace has a failure.
func (t *Trace) HasFailed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failures) > 0
}

// Must adds a failure for each error that is not nil.
func (t *Trace) Must(errs ...error) {
	for _, err := range errs {
		if err != nil {
			t.Fail("%v", err)
		}
	}
}

// Result returns the lines and the failures.
func (t *Trace) Result() (lines, failures []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lines, t.failures
}
