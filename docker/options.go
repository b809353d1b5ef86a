package docker

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/volumekit/volumekit/internal/optionlist"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The options of volumes that are not parameters of the plugin.
const (
	optionSize  = "size"
	optionMode  = "mode"
	optionUID   = "uid"
	optionGID   = "gid"
	optionRO    = "ro"
	optionShare = "share"
	optionMount = "o"
)

func isOption(key string) bool {
	return slices.Contains([]string{optionSize, optionMode, optionUID, optionGID, optionRO, optionShare, optionMount}, key)
}

// Limits of the options of a volume.
const (
	mostOptions  = 64
	longestKey   = 63
	longestValue = 4096
)

// An options is the parsed options of a volume.
type options struct {
	bytes      int64  // requested size; 0: none
	mode       *int64 // of the root directory; nil: the plugin's
	uid, gid   *int64
	readOnly   bool
	share      string
	mount      []string
	parameters map[string]string // of the class
}

// parseOptions parses the options of Create. Its error is a *field.Error that names the key.
func parseOptions(written map[string]string) (o options, err error) {
	at := field.NewPath("options")
	if len(written) > mostOptions {
		return o, field.TooMany(at, len(written), mostOptions)
	}
	for _, key := range slices.Sorted(maps.Keys(written)) {
		value, at := written[key], at.Key(key)
		if err := checkOption(field.NewPath("options"), key, value); err != nil {
			return o, err
		}
		switch key {
		case optionSize:
			o.bytes, err = parseSize(at, value)
		case optionMode:
			o.mode, err = parseMode(at, value)
		case optionUID:
			o.uid, err = parseID(at, value)
		case optionGID:
			o.gid, err = parseID(at, value)
		case optionRO:
			o.readOnly, err = parseBool(at, value)
		case optionShare:
			if o.share = value; value == "" {
				err = field.Required(at, "the storage that the volume shows")
			}
		case optionMount:
			o.mount = optionlist.Split(value)
		default:
			if o.parameters == nil {
				o.parameters = map[string]string{}
			}
			o.parameters[key] = value
		}
		if err != nil {
			return o, err
		}
	}
	return o, o.check(at)
}

// checkOption refuses a key or a value that no plugin can need.
func checkOption(at *field.Path, key, value string) error {
	switch {
	case key == "" || len(key) > longestKey || !isText(key):
		return volume.Invalid(at, key, fmt.Sprintf("a key must have 1 to %d bytes, and no control characters", longestKey))
	case len(value) > longestValue:
		return volume.Invalid(at.Key(key), value, fmt.Sprintf("must be at most %d bytes", longestValue))
	case !isText(value):
		return volume.Invalid(at.Key(key), value, "must be UTF-8 without control characters")
	}
	return nil
}

func isText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) })
}

// check refuses options that exclude each other.
func (o options) check(at *field.Path) error {
	if o.share != "" {
		switch {
		case o.bytes != 0:
			return field.Forbidden(at.Key(optionSize), "a share has the size that it has")
		case o.ownsRoot():
			return field.Forbidden(at.Key(o.firstOfRoot()), "the directory of a share keeps its owner and mode")
		case len(o.parameters) > 0:
			return field.Forbidden(at.Key(slices.Sorted(maps.Keys(o.parameters))[0]), "not an option of a share")
		}
	}
	if o.readOnly && o.ownsRoot() {
		return field.Forbidden(at.Key(o.firstOfRoot()), "a read-only volume keeps its owner and mode")
	}
	return nil
}

// ownsRoot reports whether the owner or the mode of the volume's root directory is requested.
func (o options) ownsRoot() bool { return o.mode != nil || o.uid != nil || o.gid != nil }

func (o options) firstOfRoot() string {
	switch {
	case o.mode != nil:
		return optionMode
	case o.uid != nil:
		return optionUID
	}
	return optionGID
}

// parseSize parses a quantity of bytes as Kubernetes writes it.
func parseSize(at *field.Path, text string) (int64, error) {
	const rule = `must be a number of bytes such as 10Gi, with the units k, M, G and T of 1000 and Ki, Mi, Gi and Ti of 1024`
	q, err := resource.ParseQuantity(text)
	if err != nil || quantity.Check(&q) != nil {
		return 0, volume.Invalid(at, text, rule)
	}
	bytes, err := quantity.Bytes(&q)
	if err != nil || bytes <= 0 || bytes == math.MaxInt64 || resource.NewQuantity(bytes, q.Format).Cmp(q) != 0 { // 100m is a tenth of a byte
		return 0, volume.Invalid(at, text, rule)
	}
	return bytes, nil
}

func parseMode(at *field.Path, text string) (*int64, error) {
	mode, err := strconv.ParseInt(text, 8, 64)
	if err != nil || !isNumber(text) || mode > 0o1777 {
		return nil, volume.Invalid(at, text, "must be an octal mode of at most 1777, such as 0750")
	}
	return &mode, nil
}

func parseID(at *field.Path, text string) (*int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !isNumber(text) {
		return nil, volume.Invalid(at, text, "must be a number")
	}
	return &id, volume.ValidateID(at, &id)
}

func isNumber(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
}

func parseBool(at *field.Path, text string) (bool, error) {
	if text == "" {
		return true, nil
	}
	is, err := strconv.ParseBool(text)
	if err != nil {
		return false, volume.Invalid(at, text, "must be true or false")
	}
	return is, nil
}

// compareOptions returns an error that names the first key in which the options of a volume differ. It shows no value.
func compareOptions(have, want map[string]string) error {
	keys := maps.Clone(have)
	if keys == nil {
		keys = map[string]string{}
	}
	maps.Copy(keys, want)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		is, ok := have[key]
		asked, wanted := want[key]
		if ok != wanted || is != asked {
			return field.Forbidden(field.NewPath("options").Key(key), "the volume exists with another value")
		}
	}
	return nil
}
