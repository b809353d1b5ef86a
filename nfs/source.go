package nfs

import (
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A source is an export of a server in canonical form: equivalent spellings are equal.
type source struct{ server, path string }

// volumeName returns the name of the storage: "server/path".
func (s source) volumeName() string { return s.server + s.path }

// String returns the source as mount(8) writes it: "server:/path", "[2001:db8::1]:/path".
func (s source) String() string {
	if strings.Contains(s.server, ":") {
		return "[" + s.server + "]:" + s.path
	}
	return s.server + ":" + s.path
}

// sourceOf returns the NFS source of a specification and its field path, or nil if the
// volume is of another kind.
func sourceOf(spec *volume.Spec) (*v1.NFSVolumeSource, *field.Path) {
	at := field.NewPath("spec")
	switch {
	case spec == nil:
		return nil, nil
	case spec.Volume != nil && spec.Volume.NFS != nil:
		return spec.Volume.NFS, at.Child("volume", "nfs")
	case spec.PersistentVolume != nil && spec.PersistentVolume.Spec.NFS != nil:
		return spec.PersistentVolume.Spec.NFS, at.Child("persistentVolume", "spec", "nfs")
	}
	return nil, nil
}

// parseSource parses the source of a specification. Its errors are of type
// [*field.Error].
func parseSource(at *field.Path, written *v1.NFSVolumeSource) (source, error) {
	server, err := parseServer(at.Child("server"), written.Server)
	if err != nil {
		return source{}, err
	}
	path, err := parsePath(at.Child("path"), written.Path)
	return source{server, path}, err
}

// parseMountSource parses the source of a mount table entry.
func parseMountSource(text string) (source, error) {
	server, export, found := strings.Cut(text, ":/")
	if strings.HasPrefix(text, "[") {
		server, export, found = strings.Cut(text, "]:/")
		server += "]"
	}
	at := field.NewPath("source")
	if !found {
		return source{}, volume.Invalid(at, text, "must be server:/path")
	}
	return parseSource(at, &v1.NFSVolumeSource{Server: server, Path: "/" + export})
}

// parseServer returns a name in lower case, or an address in its shortest spelling.
func parseServer(at *field.Path, written string) (string, error) {
	if written == "" {
		return "", field.Required(at, "an NFS volume needs a server")
	}
	text := written
	if inside, ok := strings.CutPrefix(written, "["); ok {
		if text, ok = strings.CutSuffix(inside, "]"); !ok || !strings.Contains(text, ":") {
			return "", volume.Invalid(at, written, "must be an IPv6 address in the brackets")
		}
	}
	if strings.Contains(text, ":") {
		return parseIPv6(at, text)
	}
	if address, err := netip.ParseAddr(text); err == nil {
		return address.String(), nil
	}
	return parseName(at, text)
}

// interfaceName matches the name or number of a network device in the zone of an address.
var interfaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)

func parseIPv6(at *field.Path, text string) (string, error) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return "", volume.Invalid(at, text, "must be an IPv6 address, as a name has no colon")
	}
	if zone := address.Zone(); zone != "" && !interfaceName.MatchString(zone) {
		return "", volume.Invalid(at, text, "must have the name of a network device as its zone")
	}
	return address.Unmap().String(), nil
}

var (
	hostLabel = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
	number    = regexp.MustCompile(`^([0-9]+|0[xX][0-9a-fA-F]*)$`)
)

// longestName is the maximum length of a DNS name.
const longestName = 253

// parseName accepts a DNS name. It refuses one whose last label is a number, which
// resolvers treat differently: as an address or as a name.
func parseName(at *field.Path, text string) (string, error) {
	labels := strings.Split(strings.TrimSuffix(text, "."), ".")
	switch {
	case len(text) > longestName:
		return "", volume.Invalid(at, text, "must be at most 253 bytes")
	case slices.ContainsFunc(labels, func(l string) bool { return !hostLabel.MatchString(l) }):
		return "", volume.Invalid(at, text, "must be the name or the address of a server")
	case number.MatchString(labels[len(labels)-1]):
		return "", volume.Invalid(at, text, "must be an IPv4 address, as a name does not end with a number")
	}
	return strings.ToLower(text), nil
}

// longestPath is the maximum length of an export for the kernel's client.
const longestPath = 1024

func parsePath(at *field.Path, written string) (string, error) {
	switch {
	case written == "":
		return "", field.Required(at, "an NFS volume needs a path")
	case !strings.HasPrefix(written, "/"):
		return "", volume.Invalid(at, written, "the path must be absolute")
	case strings.ContainsFunc(written, unicode.IsControl):
		return "", volume.Invalid(at, written, "must contain neither NUL nor control characters")
	case slices.Contains(strings.Split(written, "/"), ".."):
		return "", volume.Invalid(at, written, `the path must not contain ".."`)
	case len(written) > longestPath:
		return "", volume.Invalid(at, written, "must be at most 1024 bytes")
	}
	return path.Clean(written), nil
}
