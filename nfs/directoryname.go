package nfs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// ownersDir is the directory of the export with the owners of directories, see exportTree.own.
	ownersDir = ".volumekit"
	// archivePrefix begins the names of archived directories.
	archivePrefix = "archived-"
	// longestDefaultName leaves room in the name of a directory for the name of its archive.
	longestDefaultName = 240
	// namespaceVariable is the only variable that no tenant chooses.
	namespaceVariable = ".PVC.namespace"
)

// directoryOf returns the path of a volume's directory, relative to the export: by the pattern of
// the class, or NAMESPACE-CLAIM-VOLUME. The first given components may exist without a record: they are
// parents that no tenant chooses, or have the name of the volume.
func directoryOf(o volume.VolumeOptions, pattern string) (dir string, given int, err error) {
	switch {
	case pattern != "":
		return expandPattern(o.PVC, pattern)
	case o.PVC == nil:
		return o.PVName, 1, nil
	}
	dir, err = defaultDirectory(o.PVC.Namespace, o.PVC.Name, o.PVName)
	return dir, 1, err
}

// defaultDirectory omits the end of a long claim's name: the volume's name makes the result unique.
func defaultDirectory(namespace, claim, pvName string) (string, error) {
	name := namespace + "-" + claim + "-" + pvName
	if tooLong := len(name) - longestDefaultName; tooLong > 0 && tooLong < len(claim) {
		name = namespace + "-" + claim[:len(claim)-tooLong] + "-" + pvName
	}
	at := field.NewPath("claim", "metadata", "name")
	if len(name) > longestDefaultName {
		return "", volume.Invalid(at, claim, "the names of namespace, claim and volume are too long for a directory")
	}
	return name, checkDirectory(at, name)
}

// expandPattern returns the path by a pattern of a class, and the number of leading components that no tenant chooses,
// without the last one. The pattern alone decides on the components of the path: a value of the claim is a part of one
// component.
func expandPattern(claim *v1.PersistentVolumeClaim, pattern string) (dir string, given int, err error) {
	at := field.NewPath("storageClass", "parameters").Key(pathPattern)
	switch {
	case len(pattern) > longestPath:
		return "", 0, volume.Invalid(at, pattern, "must be at most 1024 bytes")
	case claim == nil:
		return "", 0, volume.Invalid(at, pattern, "requires a claim")
	}
	expanded, chosen, err := expandVariables(claim, at, pattern)
	if err != nil {
		return "", 0, err
	}
	dir = strings.Join(componentsOf(expanded), "/")
	switch {
	case dir == "":
		return "", 0, volume.Invalid(at, pattern, "must name a directory below the export")
	case strings.HasPrefix(dir, archivePrefix):
		return "", 0, volume.Invalid(at, dir, "must not begin as the names of archives do")
	}
	parents := componentsOf(expanded[:strings.LastIndexByte(expanded[:chosen], '/')+1])
	if n := strings.Count(dir, "/"); len(parents) > n {
		parents = parents[:n]
	}
	given = len(parents)
	if i := slices.IndexFunc(parents, isForeignName); i >= 0 { // a namespace has the name of a volume's directory
		given = i
	}
	return dir, given, checkDirectory(at, dir)
}

// defaultName matches the names of directories of nfs-subdir-external-provisioner without a pathPattern.
var defaultName = regexp.MustCompile("-pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

// isForeignName reports whether a directory without a record belongs to somebody else by its name: it is a default
// directory, or lost+found.
func isForeignName(name string) bool { return name == "lost+found" || defaultName.MatchString(name) }

func componentsOf(dir string) []string {
	return strings.FieldsFunc(dir, func(r rune) bool { return r == '/' })
}

// expandVariables returns the pattern with the values of its variables, and the number of bytes before
// the first value that a tenant chooses.
func expandVariables(claim *v1.PersistentVolumeClaim, at *field.Path, pattern string) (_ string, chosen int, err error) {
	var expanded strings.Builder
	chosen = -1
	for rest := pattern; ; {
		before, after, found := strings.Cut(rest, "${")
		expanded.WriteString(before)
		if !found {
			if chosen < 0 {
				chosen = expanded.Len()
			}
			return expanded.String(), chosen, nil
		}
		variable, following, closed := strings.Cut(after, "}")
		if !closed {
			return "", 0, volume.Invalid(at, pattern, `must have a "}" for each "${"`)
		}
		value, from, ok := valueOf(claim, variable)
		if !ok {
			return "", 0, volume.Invalid(at, pattern, "must have no variables but ${.PVC.namespace}, ${.PVC.name}, ${.PVC.labels.KEY} and ${.PVC.annotations.KEY}")
		}
		if err := checkValue(from, value); err != nil {
			return "", 0, err
		}
		if chosen < 0 && variable != namespaceVariable {
			chosen = expanded.Len()
		}
		expanded.WriteString(value)
		rest = following
	}
}

// valueOf returns the value of a variable and the field that holds it.
func valueOf(claim *v1.PersistentVolumeClaim, variable string) (value string, from *field.Path, ok bool) {
	metadata := field.NewPath("claim", "metadata")
	name, ok := strings.CutPrefix(variable, ".PVC.")
	if !ok {
		return "", nil, false
	}
	if key, ok := strings.CutPrefix(name, "labels."); ok {
		return claim.Labels[key], metadata.Child("labels").Key(shortKey(key)), true
	}
	if key, ok := strings.CutPrefix(name, "annotations."); ok {
		return claim.Annotations[key], metadata.Child("annotations").Key(shortKey(key)), true
	}
	switch name {
	case "namespace":
		return claim.Namespace, metadata.Child("namespace"), true
	case "name":
		return claim.Name, metadata.Child("name"), true
	}
	return "", nil, false
}

// checkValue refuses a value that is missing, since the directory would be that of other claims, or
// that is not a part of one component.
func checkValue(from *field.Path, value string) error {
	if value == "" {
		return field.Required(from, fmt.Sprintf("the class's %s has the value in the path of the volume", pathPattern))
	}
	if err := volume.ValidatePathComponent(from, value); err != nil {
		return err
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		return volume.Invalid(from, value, "must contain no control characters")
	}
	return nil
}

// checkDirectory refuses a path that is not strictly below the export, or that is reserved.
func checkDirectory(at *field.Path, dir string) error {
	for component := range strings.SplitSeq(dir, "/") {
		if err := volume.ValidatePathComponent(at, component); err != nil {
			return err
		}
		if strings.ContainsFunc(component, unicode.IsControl) {
			return volume.Invalid(at, dir, "must contain no control characters")
		}
	}
	return checkReserved(at, dir)
}

func checkReserved(at *field.Path, dir string) error {
	if first, _, _ := strings.Cut(dir, "/"); first == ownersDir {
		return volume.Invalid(at, dir, "is reserved for the owners of directories")
	}
	return nil
}

// archiveName returns the name of the archive of a directory. The name of the volume makes it
// unique.
func archiveName(base, pvName string) string {
	name := archivePrefix + base
	if !strings.Contains(base, pvName) {
		name += "-" + pvName
	}
	const room = 6 // for a number
	if most := 255 - room; len(name) > most {
		name = archivePrefix + pvName[:min(len(pvName), most-len(archivePrefix))]
	}
	return name
}
