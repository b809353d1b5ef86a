package nfs

import (
	"maps"
	"slices"
	"strconv"

	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The parameters of a class.
const (
	pathPattern     = "pathPattern"
	onDelete        = "onDelete"
	archiveOnDelete = "archiveOnDelete"
	adopt           = "adopt"
	overcommit      = "overcommit"
	modeParameter   = "mode"
	uidParameter    = "uid"
	gidParameter    = "gid"
)

var parameterNames = []string{pathPattern, onDelete, archiveOnDelete, adopt, overcommit, modeParameter, uidParameter, gidParameter}

// A disposal is the end of a directory whose volume is deleted.
type disposal string

const (
	archiving disposal = "archive"
	deleting  disposal = "delete"
	retaining disposal = "retain"
)

// OnDeleteAnnotation is the annotation of a provisioned volume with the end of its directory:
// "archive", "delete" or "retain". It has the meaning of the class at the time of Provision, so
// that a volume can be deleted after its class.
const OnDeleteAnnotation = "volumekit.io/nfs-on-delete"

// parameters are the parsed parameters of a class.
type parameters struct {
	pattern    string
	disposal   disposal
	adopt      bool // directories that exist without a record
	overcommit bool
	mode       uint32
	uid, gid   int // -1: the server's choice
}

// parseParameters returns a *field.Error for an unknown parameter or an invalid value.
func parseParameters(written map[string]string) (parameters, error) {
	at := field.NewPath("storageClass", "parameters")
	for _, name := range slices.Sorted(maps.Keys(written)) {
		if !slices.Contains(parameterNames, name) {
			return parameters{}, volume.Invalid(at.Key(shortKey(name)), written[name], "unknown parameter of NFS volumes")
		}
	}
	p := parameters{pattern: written[pathPattern], mode: 0o777, uid: -1, gid: -1}
	var err error
	if p.disposal, err = parseDisposal(at, written); err != nil {
		return p, err
	}
	for name, value := range map[string]*bool{adopt: &p.adopt, overcommit: &p.overcommit} {
		if *value, err = parseBool(at, written, name, false); err != nil {
			return p, err
		}
	}
	if p.adopt && (p.pattern == "" || p.disposal != retaining) {
		return p, volume.Invalid(at.Key(adopt), written[adopt], "requires a pathPattern, and onDelete retain")
	}
	if text, ok := written[modeParameter]; ok {
		if p.mode, err = parseMode(at.Key(modeParameter), text); err != nil {
			return p, err
		}
	}
	for name, id := range map[string]*int{uidParameter: &p.uid, gidParameter: &p.gid} {
		if text, ok := written[name]; ok {
			if *id, err = parseID(at.Key(name), text); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

// shortKey shortens the name of a parameter for the path of a field.
func shortKey(name string) string {
	const longest = 63
	if len(name) > longest {
		return name[:longest] + "..."
	}
	return name
}

// parseDisposal returns onDelete, and without it the meaning of archiveOnDelete, which is true by
// default.
func parseDisposal(at *field.Path, written map[string]string) (disposal, error) {
	archive, err := parseBool(at, written, archiveOnDelete, true)
	if err != nil {
		return "", err
	}
	switch text := written[onDelete]; {
	case text == string(deleting), text == string(retaining):
		return disposal(text), nil
	case text != "":
		return "", volume.Invalid(at.Key(onDelete), text, "must be delete or retain")
	case archive:
		return archiving, nil
	}
	return deleting, nil
}

// parseBool returns the value of a parameter, or its default.
func parseBool(at *field.Path, written map[string]string, name string, value bool) (bool, error) {
	text, ok := written[name]
	if !ok {
		return value, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, volume.Invalid(at.Key(name), text, "must be true or false")
	}
	return value, nil
}

// parseMode accepts permissions with the sticky and the setgid bit.
func parseMode(at *field.Path, text string) (uint32, error) {
	const most = 0o3777
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > most {
		return 0, volume.Invalid(at, text, "must be an octal number from 0 to 3777")
	}
	return uint32(mode), nil
}

func parseID(at *field.Path, text string) (int, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || volume.ValidateID(at, &id) != nil {
		return 0, volume.Invalid(at, text, "must be a user or group ID")
	}
	return int(id), nil
}
