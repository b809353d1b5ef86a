//go:build !linux

package cli

import "os"

// waitForHangup returns false: outside of Linux the next write fails instead.
func waitForHangup(*os.File) bool { return false }
