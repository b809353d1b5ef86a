package content

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/volumekit/volumekit/volume"
)

// A PodCertificateProjection is the podCertificate of a projected volume's source, field
// by field as in the Kubernetes API. The API has the source since v1.34, and this module
// requires an older one, so the type is declared here. Programs that link k8s.io/api
// v0.34 or newer have volumes with such a source; with an older k8s.io/api the source
// cannot be written, and decoding drops it.
type PodCertificateProjection struct {
	SignerName           string            `json:"signerName,omitempty"`
	KeyType              string            `json:"keyType,omitempty"`
	MaxExpirationSeconds *int32            `json:"maxExpirationSeconds,omitempty"`
	CredentialBundlePath string            `json:"credentialBundlePath,omitempty"`
	KeyPath              string            `json:"keyPath,omitempty"`
	CertificateChainPath string            `json:"certificateChainPath,omitempty"`
	UserAnnotations      map[string]string `json:"userAnnotations,omitempty"`
}

// podCertificate reads the source of that name from a volume projection of whichever
// k8s.io/api is linked. It returns nil if the projection has another source. A field that
// PodCertificateProjection lacks is an error that wraps [volume.ErrNotSupported].
func podCertificate(projection any) (*PodCertificateProjection, error) {
	source := reflect.ValueOf(projection).FieldByName("PodCertificate")
	if !source.IsValid() || source.IsNil() {
		return nil, nil
	}
	data, err := json.Marshal(source.Interface())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, volume.ErrNotSupported)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	read := new(PodCertificateProjection)
	if err := decoder.Decode(read); err != nil {
		return nil, fmt.Errorf("%w: %w", err, volume.ErrNotSupported)
	}
	return read, nil
}

// paths returns the paths of the files; an empty path has no file.
func (s *PodCertificateProjection) paths() []string {
	return []string{s.CredentialBundlePath, s.KeyPath, s.CertificateChainPath}
}
