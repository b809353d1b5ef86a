package content

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The API's limits in seconds, and its defaults.
const (
	minTokenSeconds     = 10 * 60
	maxTokenSeconds     = 1 << 32
	defaultTokenSeconds = 60 * 60

	minCertificateSeconds     = 60 * 60
	maxCertificateSeconds     = 91 * 24 * 60 * 60
	defaultCertificateSeconds = 24 * 60 * 60
)

// keyTypes are the key types of pod certificates.
var keyTypes = []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}

// setDefaults sets the API server's defaults for tokens, on which getters rely.
func setDefaults(source *v1.ProjectedVolumeSource) {
	for _, s := range source.Sources {
		if token := s.ServiceAccountToken; token != nil {
			token.ExpirationSeconds = orDefault(token.ExpirationSeconds, defaultTokenSeconds)
		}
	}
}

func orDefault[T any](p *T, value T) *T {
	if p == nil {
		return &value
	}
	return p
}

func (k *checker) token(at *field.Path, s *v1.ServiceAccountTokenProjection) error {
	if seconds := s.ExpirationSeconds; seconds != nil && (*seconds < minTokenSeconds || *seconds > maxTokenSeconds) {
		return field.Invalid(at.Child("expirationSeconds"), *seconds, "must be from 600 to 2^32")
	}
	if reason := badAudience(s.Audience); reason != "" {
		return volume.Invalid(at.Child("audience"), s.Audience, reason)
	}
	return k.path(at.Child("path"), s.Path)
}

// badAudience returns the fault of an audience, or "". The audience becomes part of a token
// and of requests for it.
func badAudience(audience string) string {
	const longest = 4096
	switch {
	case len(audience) > longest:
		return "longer than 4096 bytes"
	case !utf8.ValidString(audience):
		return "not UTF-8"
	case strings.ContainsFunc(audience, unicode.IsControl):
		return "has a control character"
	}
	return ""
}

func (k *checker) trustBundle(at *field.Path, s *v1.ClusterTrustBundleProjection) error {
	switch {
	case (s.Name == nil) == (s.SignerName == nil):
		return field.Required(at, "needs one of name and signerName")
	case s.Name != nil && s.LabelSelector != nil:
		return field.Forbidden(at.Child("labelSelector"), "must be empty for a bundle with a name")
	case s.Name != nil && badBundle(*s.Name):
		return volume.Invalid(at.Child("name"), *s.Name, "must be a name, such as example or example.com:signer:example")
	case s.SignerName != nil && badSigner(*s.SignerName):
		return volume.Invalid(at.Child("signerName"), *s.SignerName, signerExample)
	}
	selector := metav1validation.LabelSelectorValidationOptions{}
	if bad := metav1validation.ValidateLabelSelector(s.LabelSelector, selector, at.Child("labelSelector")); len(bad) > 0 {
		bad[0].BadValue, bad[0].Detail = brief.Name(fmt.Sprint(bad[0].BadValue)), brief.Name(bad[0].Detail)
		return bad[0]
	}
	return k.path(at.Child("path"), s.Path)
}

// badBundle reports whether a trust bundle's name is invalid: a name by itself, or the
// signer's name with a colon for the slash, followed by a colon and a name.
func badBundle(name string) bool {
	parts := strings.Split(name, ":")
	if len(parts) == 3 && !badSigner(parts[0]+"/"+parts[1]) {
		parts = parts[2:]
	}
	return len(parts) != 1 || badSubdomain(parts[0])
}

const signerExample = "such as example.com/signer"

func badSigner(name string) bool {
	const longest = 571 // a domain, a slash, a namespace, a dot and an object
	domain, rest, ok := strings.Cut(name, "/")
	return !ok || len(name) > longest || badSubdomain(domain) ||
		slices.ContainsFunc(strings.Split(rest, "."), badSubdomain)
}

func badSubdomain(name string) bool {
	return len(input.Problems(validation.IsDNS1123Subdomain, name)) > 0
}

func (k *checker) certificate(at *field.Path, s *PodCertificateProjection) error {
	seconds := s.MaxExpirationSeconds
	switch {
	case badSigner(s.SignerName):
		return volume.Invalid(at.Child("signerName"), s.SignerName, signerExample)
	case !slices.Contains(keyTypes, s.KeyType):
		return volume.Invalid(at.Child("keyType"), s.KeyType, "must be one of "+strings.Join(keyTypes, ", "))
	case seconds != nil && (*seconds < minCertificateSeconds || *seconds > maxCertificateSeconds):
		return field.Invalid(at.Child("maxExpirationSeconds"), *seconds, "must be from 3600 to 7862400")
	case s.CredentialBundlePath == "" && s.KeyPath == "" && s.CertificateChainPath == "":
		return field.Required(at.Child("credentialBundlePath"), "a certificate needs the path of its file")
	}
	if err := userAnnotations(at.Child("userAnnotations"), s.UserAnnotations); err != nil {
		return err
	}
	for _, file := range []struct{ field, path string }{
		{"credentialBundlePath", s.CredentialBundlePath},
		{"keyPath", s.KeyPath},
		{"certificateChainPath", s.CertificateChainPath},
	} {
		if file.path == "" {
			continue
		}
		if err := k.path(at.Child(file.field), file.path); err != nil {
			return err
		}
	}
	return nil
}

// userAnnotations validates annotations for the signer.
func userAnnotations(at *field.Path, annotations map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		reasons := input.Problems(validation.IsQualifiedName, strings.ToLower(key))
		if len(reasons) == 0 && !strings.Contains(key, "/") {
			reasons = []string{"without a domain: such as example.com/key"}
		}
		if len(reasons) > 0 {
			return volume.Invalid(at, key, strings.Join(reasons, "; "))
		}
	}
	if apivalidation.ValidateAnnotationsSize(annotations) != nil {
		return field.TooLong(at, "", apivalidation.TotalAnnotationSizeLimitB)
	}
	return nil
}
