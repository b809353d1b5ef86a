//go:build !linux && !windows

package fsusage

var statfs = func(path string) (Usage, error) { return Usage{}, unsupported("statfs", path) }
