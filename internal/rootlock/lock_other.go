//go:build !linux

package rootlock

import "os"

// flock locks nothing: outside of Linux the agents mount nothing.
func flock(*os.File) error { return nil }
