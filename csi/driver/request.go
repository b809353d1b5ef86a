package driver

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of the specification, and of Linux for paths.
const (
	longestMap  = 4 << 10
	longestPath = 4095
)

// checkText returns why a text of a request is refused, or "".
func checkText(text string, longest int) string {
	switch {
	case len(text) > longest:
		return fmt.Sprintf("must be at most %d bytes", longest)
	case !utf8.ValidString(text):
		return "must be UTF-8"
	case strings.ContainsFunc(text, isBanned):
		return "must not contain control characters"
	}
	return ""
}

// isBanned reports a control character that the specification bans from names.
func isBanned(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r <= 0x9f
}

// requireText refuses an empty or an invalid text.
func requireText(at *field.Path, text string, longest int) error {
	if text == "" {
		return field.Required(at, "the request needs it")
	}
	if reason := checkText(text, longest); reason != "" {
		return volume.Invalid(at, text, reason)
	}
	return nil
}

// requireID parses the ID in a request.
func requireID(text string) (volumeID, error) {
	if err := requireText(field.NewPath("volumeID"), text, longestField); err != nil {
		return volumeID{}, err
	}
	return parseID(text), nil
}

// requirePath returns the shortest spelling of an absolute path. Whether it is in a directory for
// volumes is a question for the plugin.
func requirePath(at *field.Path, text string) (string, error) {
	if err := requireText(at, text, longestPath); err != nil {
		return "", err
	}
	switch {
	case !path.IsAbs(text):
		return "", volume.Invalid(at, text, "must be absolute")
	case slices.Contains(strings.Split(text, "/"), ".."):
		return "", volume.Invalid(at, text, `must not contain ".."`)
	}
	return path.Clean(text), nil
}

// requireUse parses the volume and the path, of this name, in a call on a node.
func requireUse(volume, name, text string) (id volumeID, clean string, err error) {
	if id, err = requireID(volume); err == nil {
		clean, err = requirePath(field.NewPath(name), text)
	}
	return id, clean, err
}

// checkMap refuses a map that is larger than the specification allows.
func checkMap(at *field.Path, m map[string]string) error {
	size := 0
	for key, value := range m {
		size += len(key) + len(value)
	}
	if size > longestMap {
		return field.TooLongMaxLength(at, "", longestMap)
	}
	return nil
}

// requireRange returns the requested sizes. The default is that of a request without a range.
func requireRange(r *csipb.CapacityRange, byDefault int64) (required, limit int64, err error) {
	required, limit = r.GetRequiredBytes(), r.GetLimitBytes()
	at := field.NewPath("capacityRange")
	switch {
	case required < 0:
		return 0, 0, field.Invalid(at.Child("requiredBytes"), required, "must be at least 0")
	case limit < 0:
		return 0, 0, field.Invalid(at.Child("limitBytes"), limit, "must be at least 0")
	case limit > 0 && required > limit:
		return 0, 0, coded(codes.OutOfRange, field.Invalid(at.Child("requiredBytes"), required, fmt.Sprintf("is more than the limit, %d", limit)))
	case required == 0 && limit > 0:
		required = min(byDefault, limit)
	case required == 0:
		required = byDefault
	}
	return required, limit, nil
}
