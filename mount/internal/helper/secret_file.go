package helper

import (
	"strings"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/text"
)

// A secretFile is the content of a secret file, and the option that names the file.
type secretFile struct{ option, content string }

// newSecretFile returns the secret file for secrets. It refuses secrets that the helper reads
// from its arguments only.
func newSecretFile(fsType string, secrets []options.Secret) (secretFile, error) {
	format := secretFormats[fsType]
	var b strings.Builder
	for i, secret := range secrets {
		key, value, _ := strings.Cut(secret.Reveal(), "=")
		name, known := format.keys[key]
		if !known || fsType == "ceph" && i > 0 {
			return secretFile{}, failure.NewInputError(options.FieldOf("Secrets", i), options.Redacted, "mount."+text.Quote(fsType)+
				" takes this option as an argument only, and every user can read arguments"+format.hint)
		}
		b.WriteString(name + value)
		if name != "" {
			b.WriteByte('\n')
		}
	}
	return secretFile{format.option, b.String()}, nil
}

// A secretFormat describes the secret files of a type.
type secretFormat struct {
	option string            // names the file
	keys   map[string]string // secret options, with the beginning of their line in the file
	hint   string            // follows the error about an option that is not in keys
}

var secretFormats = map[string]secretFormat{
	"cifs": {"credentials=", cifsKeys, cifsHint},
	"smb3": {"credentials=", cifsKeys, cifsHint},
	"ceph": {"secretfile=", map[string]string{"secret": ""}, ""},
}

// cifsHint is for passwords with a comma, which separates options.
const cifsHint = "; a password with a comma has to be in a file: credentials=FILE"

var cifsKeys = map[string]string{
	"username": "username=",
	"password": "password=", "pass": "password=",
	"domain": "domain=", "dom": "domain=", "workgroup": "domain=",
}
