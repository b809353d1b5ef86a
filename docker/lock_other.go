//go:build !linux

package docker

// lockFile locks nothing: the driver mounts nothing.
func lockFile(string) (release func(), err error) { return func() {}, nil }
