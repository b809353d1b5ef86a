package mounttest

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// slashed returns p as the mount table writes paths: with slashes, from "/". On
// Windows `C:\dir` is "/C:/dir"; elsewhere p stays as it is.
func slashed(p string) string {
	if filepath.VolumeName(p) == "" {
		return filepath.ToSlash(p)
	}
	return "/" + filepath.ToSlash(p)
}

// native undoes slashed.
func native(p string) string {
	if rest := strings.TrimPrefix(p, "/"); filepath.VolumeName(rest) != "" {
		p = rest
	}
	return filepath.FromSlash(p)
}

// trustedLinks returns the path on which symbolic links are followed, or "".
func trustedLinks() string {
	if runtime.GOOS == "linux" {
		return ""
	}
	return slashed(filepath.Clean(os.TempDir()))
}
