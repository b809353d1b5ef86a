package mounttest

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// NoLeaks remembers how many goroutines and file descriptors the process has, and
// returns a function that fails the test if there are more of them now. It
// waits a moment for those that are about to end. Descriptors are counted where
// the system lists them, on Linux.
func NoLeaks(t *testing.T) (check func()) {
	t.Helper()
	warmUp(t)
	goroutines, descriptors := counts()
	return func() {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			g, d := counts()
			if g <= goroutines && d <= descriptors {
				return
			}
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<16)
				t.Fatalf("%d goroutines and %d descriptors were %d and %d before\n%s",
					g, d, goroutines, descriptors, stacks[:runtime.Stack(stacks, true)])
			}
		}
	}
}

// warmUp makes the runtime open the descriptors that it then keeps.
func warmUp(t *testing.T) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	_ = w.Close()
}

func counts() (goroutines, descriptors int) {
	runtime.GC() // closes files that were dropped
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		descriptors = len(entries)
	}
	return runtime.NumGoroutine(), descriptors
}
