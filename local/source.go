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
	field    string // of the configuration
	declared string // as the embedder and the volumes call it
	resolved string // without symbolic links
	links    bool   // its entries may be links to devices
}

func resolveRoots(field string, declared []string) ([]root, error) {
	var roots []root
	for i, dir := range declared {
		field := fmt.Sprintf("%s[%d]", field, i)
		if !path.IsAbs(dir) {
			return nil, fmt.Errorf("%s %q: the path must be absolute", field, dir)
		}
		resolved, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		roots = append(roots, root{field: field, declared: path.Clean(dir), resolved: resolved})
	}
	return roots, nil
}

// A location is where a volume is, by its path alone.
type location struct {
	path string // without symbolic links up to the root
	// mayBeDevice: right in a root, where pods make nothing.
	mayBeDevice bool
	// links: right in one of Config.DeviceLinks.
	links bool
}

// pathField is where a specification has the path.
var pathField = field.NewPath("spec", "persistentVolume", "spec", "local", "path")

// locate returns where a path leads that somebody wrote into a persistent volume. Of
// roots that are in one another the innermost counts. It looks at the text alone:
// that no symbolic link leads elsewhere is to be seen in the moment when the path is
// opened.
func (p *Plugin) locate(written string) (location, error) {
	switch {
	case written == "":
		return location{}, field.Required(pathField, "a local volume has a path")
	case strings.ContainsRune(written, 0):
		return location{}, invalid(written, "a path holds no NUL")
	case !path.IsAbs(written):
		return location{}, invalid(written, "the path must be absolute")
	case hasDotDot(written):
		return location{}, invalid(written, `the path must not contain ".."`)
	}
	r, rest, ok := innermost(p.roots, path.Clean(written), func(r root) string { return r.declared })
	if !ok {
		return location{}, invalid(written, "the path is not below one of the directories where local volumes may be")
	}
	at := location{path: path.Join(r.resolved, rest), mayBeDevice: !strings.Contains(rest, "/"), links: r.links}
	if r.links && !at.mayBeDevice {
		return location{}, invalid(written, "the path is not right in its directory of links to devices")
	}
	if own, ok := p.ownDir(at.path); ok {
		return location{}, invalid(written, "the path is in, or leads to, "+own+", where the volumes of pods are")
	}
	return at, nil
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

// written undoes locate: the path as a persistent volume has it.
func (p *Plugin) written(source string) (string, bool) {
	r, rest, ok := innermost(p.roots, source, func(r root) string { return r.resolved })
	if !ok {
		return "", false
	}
	written := path.Join(r.declared, rest)
	again, err := p.locate(written)
	return written, err == nil && again.path == source
}

// innermost returns the innermost of the roots that a path is below, and the rest of
// the path.
func innermost(roots []root, name string, dir func(root) string) (longest root, rest string, ok bool) {
	for _, r := range roots {
		if after, is := below(dir(r), name); is && len(dir(r)) > len(dir(longest)) {
			longest, rest, ok = r, after, true
		}
	}
	return longest, rest, ok
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
