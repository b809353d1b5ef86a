package local

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A root is a directory below which volumes may be.
type root struct {
	declared string // as the embedder and the volumes call it
	resolved string // without symbolic links
}

func resolveRoots(declared []string) ([]root, error) {
	var roots []root
	for i, dir := range declared {
		if !path.IsAbs(dir) {
			return nil, fmt.Errorf("Config.Roots[%d] %q: the path must be absolute", i, dir)
		}
		resolved, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, fmt.Errorf("Config.Roots[%d]: %w", i, err)
		}
		roots = append(roots, root{path.Clean(dir), resolved})
	}
	return roots, nil
}

// pathField is where a specification has the path.
var pathField = field.NewPath("spec", "persistentVolume", "spec", "local", "path")

// source returns the path to bind for a path that somebody wrote into a
// persistent volume. Of roots that are in one another the innermost counts. It
// looks at the text alone: that no symbolic link leads elsewhere is the mounter's
// to see, in the moment when it opens the path.
func (p *Plugin) source(written string) (string, error) {
	switch {
	case written == "":
		return "", field.Required(pathField, "a local volume has a path")
	case strings.ContainsRune(written, 0):
		return "", invalid(written, "a path holds no NUL")
	case !path.IsAbs(written):
		return "", invalid(written, "the path must be absolute")
	case hasDotDot(written):
		return "", invalid(written, `the path must not contain ".."`)
	}
	source, ok := replaceLongest(p.roots, path.Clean(written), func(r root) (from, to string) {
		return r.declared, r.resolved
	})
	if !ok {
		return "", invalid(written, "the path is not below one of the directories where local volumes may be")
	}
	if own, ok := p.ownDir(source); ok {
		return "", invalid(written, "the path is in, or leads to, "+own+", where the volumes of pods are")
	}
	return source, nil
}

// ownDir returns the directory of the host that is at, above or below the path.
func (p *Plugin) ownDir(at string) (string, bool) {
	for _, own := range p.host.OwnDirs() {
		if isOrIsBelow(own, at) || isOrIsBelow(at, own) {
			return own, true
		}
	}
	return "", false
}

// written undoes source: the path as a persistent volume has it.
func (p *Plugin) written(source string) (string, bool) {
	written, ok := replaceLongest(p.roots, source, func(r root) (from, to string) {
		return r.resolved, r.declared
	})
	if !ok {
		return "", false
	}
	again, err := p.source(written)
	return written, err == nil && again == source
}

// replaceLongest exchanges the part of a path that the innermost of the roots has
// in common with it.
func replaceLongest(roots []root, name string, by func(root) (from, to string)) (string, bool) {
	var longest, replaced string
	for _, r := range roots {
		from, to := by(r)
		if rest, ok := below(from, name); ok && len(from) > len(longest) {
			longest, replaced = from, path.Join(to, rest)
		}
	}
	return replaced, longest != ""
}

func hasDotDot(p string) bool { return slices.Contains(strings.Split(p, "/"), "..") }

func isOrIsBelow(dir, p string) bool {
	_, ok := below(dir, p)
	return ok || p == dir
}

// below returns what comes after dir in a path strictly below it.
func below(dir, p string) (string, bool) {
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(dir, "/")+"/")
	return rest, ok && rest != ""
}

func invalid(value, detail string) error { return volume.Invalid(pathField, value, detail) }
