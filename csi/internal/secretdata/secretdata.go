// Package secretdata has the data of Secrets as calls of CSI drivers carry it.
package secretdata

import (
	"fmt"
	"unicode/utf8"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// Of returns the data of a Secret. Data that a call cannot carry is a transient error, since Secrets are
// changed at any time. No error has a part of the data.
func Of(secret *v1.Secret) (map[string]string, error) {
	data := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		if !utf8.ValidString(key) || !utf8.Valid(value) {
			return nil, volume.AsTransient(fmt.Errorf("secret %s/%s: key %q: must be valid UTF-8 in a call of a driver", secret.Namespace, secret.Name, key))
		}
		data[key] = string(value)
	}
	return data, nil
}
