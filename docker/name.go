package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkName accepts the names that the daemon gives to volumes. They are components of paths.
func checkName(name string) error {
	at := field.NewPath("name")
	switch {
	case name == "":
		return field.Required(at, "the name of a volume")
	case len(name) > longestName || !nameOf.MatchString(name):
		return volume.Invalid(at, name, fmt.Sprintf("must begin with a letter or digit, and have at most %d letters, digits and _.-", longestName))
	}
	return nil
}

const longestID = 128

// checkID accepts the ID of a mount, which is the daemon's.
func checkID(id string) error {
	at := field.NewPath("id")
	switch {
	case id == "":
		return field.Required(at, "the ID of the mount")
	case len(id) > longestID || !isText(id):
		return volume.Invalid(at, id, fmt.Sprintf("must have at most %d bytes, and no control characters", longestID))
	}
	return nil
}

const longestReadable = 40

// storageName returns the name of the persistent volume for a name, which the plugin may have on a server beside those of
// other machines: a readable part, and a digest of the names of the driver, the volume and, with ScopeLocal, the node and
// the directory of the records: two machines may have one name.
func (d *driver) storageName(name string) string {
	owner := ""
	if d.config.Scope == ScopeLocal {
		owner = string(d.config.Host.NodeName()) + "\x00" + d.store.identity
	}
	sum := sha256.Sum256([]byte(owner + "\x00" + d.config.Name + "\x00" + name))
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name[:min(len(name), longestReadable)]))
	return readable + "-" + hex.EncodeToString(sum[:8])
}
