package helper

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
)

// systemDirs are the directories in which distributions install helpers.
var systemDirs = []string{"/sbin", "/usr/sbin", "/bin", "/usr/bin"}

// Find returns the path of the helper for a spec, or "" if the kernel alone mounts its type.
func (c *Catalog) Find(s *spec.Spec) (string, error) {
	if s.Helper == spec.HelperNever {
		return "", nil
	}
	dirs := c.Dirs
	if dirs == nil && (c.hasHelper(s.FSType) || s.Helper == spec.HelperAlways) {
		dirs = systemDirs
	}
	for i, dir := range dirs {
		if !filepath.IsAbs(dir) {
			return "", failure.NewInputError(options.FieldOf("Config.Helpers", i), dir, "the path must be absolute")
		}
	}
	names := namesFor(s.FSType)
	for _, name := range names {
		if path := findProgram(dirs, name); path != "" {
			return path, nil
		}
	}
	if s.Helper == spec.HelperAlways || c.hasHelper(s.FSType) && !networkTypes[s.FSType].kernelCan {
		return "", &Error{Helper: names[0], Err: fmt.Errorf("%w: %w", exec.ErrNotFound, errors.ErrUnsupported)}
	}
	return "", nil
}

// namesFor returns the possible names of the helper for a type. The helper of a family of
// types, "mount.fuse" for "fuse.sshfs", has the last place.
func namesFor(fsType string) []string {
	names := []string{"mount." + fsType}
	if family, _, ok := strings.Cut(fsType, "."); ok && family != "" {
		names = append(names, "mount."+family)
	}
	return names
}

// findProgram returns the path of the first program with a name in the directories, or "".
func findProgram(dirs []string, name string) string {
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}
