//go:build !linux

package building

// AcceptsOption returns false: the query needs Linux.
func AcceptsOption(string, string) bool { return false }
