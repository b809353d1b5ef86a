package local

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A root is a directory below which volumes are permitted.
type root struct {
	field    string // of the configuration
	declared string // as written by the embedder and in volumes
	resolved string // without symbolic links
	links    bool   // its entries may be links to devices
}

func resolveRoots(ctx context.Context, field string, declared []string) ([]root, error) {
	var roots []root
	for i, dir := range declared {
		field := fmt.Sprintf("%s[%d]", field, i)
		if !path.IsAbs(dir) {
			return nil, fmt.Errorf("%s %q: the path must be absolute", field, dir)
		}
		resolved, err := podvolume.ResolveLinks(ctx, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		roots = append(roots, root{field: field, declared: path.Clean(dir), resolved: resolved})
	}
	return roots, nil
}

// A location is a volume's path, resolved by text alone.
type location struct {
	path string // without symbolic links up to the root
	// mayBeDevice: directly in a root, where pods cannot create files.
	mayBeDevice bool
	// links: directly in one of Config.DeviceLinks.
	links bool
}

// pathField is the field of the path in a specification.
var pathField = field.NewPath("spec", "persistentVolume", "spec", "local", "path")

// locate resolves a path of a persistent volume. Of nested roots the innermost applies. It
// inspects the text alone: whether a symbolic link leads elsewhere shows only when the path
// is opened.
func (p *Plugin) locate(written string) (location, error) {
	switch {
	case written == "":
		return location{}, field.Required(pathField, "a local volume needs a path")
	case strings.ContainsRune(written, 0):
		return location{}, invalid(written, "must not contain NUL")
	case !path.IsAbs(written):
		return location{}, invalid(written, "the path must be absolute")
	case hasDotDot(written):
		return location{}, invalid(written, `the path must not contain ".."`)
	}
	r, rest, ok := innermostRoot(p.roots, path.Clean(written), func(r root) string { return r.declared })
	if !ok {
		return location{}, invalid(written, "must be below one of the plugin's roots")
	}
	at := location{path: path.Join(r.resolved, rest), mayBeDevice: !strings.Contains(rest, "/"), links: r.links}
	if r.links && !at.mayBeDevice {
		return location{}, invalid(written, "must be directly in a directory of Config.DeviceLinks")
	}
	if own, ok := p.ownDir(at.path); ok {
		return location{}, invalid(written, "the path is in, or leads to, "+own+", a directory of the pods' volumes")
	}
	return at, nil
}

// ownDir returns the directory of the host that is, contains or is inside the path.
func (p *Plugin) ownDir(at string) (string, bool) {
	for _, own := range p.host.OwnDirs() {
		if isOrIsBelow(own, at) || isOrIsBelow(at, own) {
			return own, true
		}
	}
	return "", false
}

// writtenPath reverses locate: it returns the path as written in a persistent volume.
func (p *Plugin) writtenPath(source string) (string, bool) {
	r, rest, ok := innermostRoot(p.roots, source, func(r root) string { return r.resolved })
	if !ok {
		return "", false
	}
	written := path.Join(r.declared, rest)
	again, err := p.locate(written)
	return written, err == nil && again.path == source
}

// innermostRoot returns the innermost of the roots that contain a path, and the rest of the path.
func innermostRoot(roots []root, name string, dir func(root) string) (longest root, rest string, ok bool) {
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

// below returns the rest of a path strictly below dir.
func below(dir, p string) (string, bool) {
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(dir, "/")+"/")
	return rest, ok && rest != ""
}

func invalid(value, detail string) error { return volume.Invalid(pathField, value, detail) }
