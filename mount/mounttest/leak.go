package mounttest

import (
	"os"
	"runtime"
	"time"
)

// NoLeaks counts the process's goroutines and file descriptors, and returns a function that
// fails the test if there are more of them then. The function waits a moment for those that
// are about to end. Descriptors are counted on Linux.
func NoLeaks(t T) (check func()) {
	t.Helper()
	warmUp(t)
	goroutines, descriptors := countResources()
	return func() {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			g, d := countResources()
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

// warmUp makes the runtime open its permanent descriptors.
func warmUp(t T) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	_ = w.Close()
}

func countResources() (goroutines, descriptors int) {
	runtime.GC() // closes dropped files
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		descriptors = len(entries)
	}
	return runtime.NumGoroutine(), descriptors
}
