package local

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

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
// persistent volume. It looks at the text alone: that no symbolic link leads
// elsewhere is the mounter's to see, in the moment when it opens the path.
func (p *Plugin) source(written string) (string, error) {
	switch {
	case written == "":
		return "", field.Required(pathField, "a local volume has a path")
	case strings.ContainsRune(written, 0):
		return "", invalid(written, "a path holds no NUL")
	case !path.IsAbs(written):
		return "", invalid(written, "the path must be absolute")
	}
	for part := range strings.SplitSeq(written, "/") {
		if part == ".." {
			return "", invalid(written, `the path must not contain ".."`)
		}
	}
	clean := path.Clean(written)
	for _, r := range p.roots {
		if rest, ok := below(r.declared, clean); ok {
			return path.Join(r.resolved, rest), nil
		}
	}
	return "", invalid(written, "the path is not below one of the directories where local volumes may be")
}

// written undoes source: the path as a persistent volume has it.
func (p *Plugin) written(source string) (string, bool) {
	for _, r := range p.roots {
		if rest, ok := below(r.resolved, source); ok {
			return path.Join(r.declared, rest), true
		}
	}
	return "", false
}

// below returns what comes after dir in a path strictly below it.
func below(dir, p string) (string, bool) {
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(dir, "/")+"/")
	return rest, ok && rest != ""
}

func invalid(value, detail string) error {
	const limit = 128
	if len(value) > limit {
		value = value[:limit] + "..."
	}
	return field.Invalid(pathField, value, detail)
}
