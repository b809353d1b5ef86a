//go:build !linux

package mount

func knowsOption(string, string) bool { return false }
