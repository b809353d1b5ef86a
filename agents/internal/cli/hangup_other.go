//go:build !linux

package cli

import "os"

// watchReader returns nil: outside of Linux the next write fails instead.
func watchReader(*os.File, func()) (stop func()) { return nil }
