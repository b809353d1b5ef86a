package apitest

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var bundleKind = newKind(kind{resource: schema.GroupResource{Group: certificatesv1alpha1.GroupName, Resource: "clustertrustbundles"}}, rules[*certificatesv1alpha1.ClusterTrustBundle]{
	fields: map[string]func(*certificatesv1alpha1.ClusterTrustBundle) string{
		"spec.signerName": func(b *certificatesv1alpha1.ClusterTrustBundle) string { return b.Spec.SignerName },
	},
	validName: validBundleName,
	validate: func(b *certificatesv1alpha1.ClusterTrustBundle) field.ErrorList {
		return validateCertificates(b.Spec.TrustBundle, specPath.Child("trustBundle"))
	},
	validateUpdate: func(b, old *certificatesv1alpha1.ClusterTrustBundle) field.ErrorList {
		return immutable(b.Spec.SignerName, old.Spec.SignerName, specPath.Child("signerName"))
	},
})

// validBundleName returns the rule for the name of a bundle: it begins with the name of the signer,
// with a colon for the slash, and a colon. The name of a bundle without a signer has no colon.
func validBundleName(b *certificatesv1alpha1.ClusterTrustBundle) validation.ValidateNameFunc {
	signer := b.Spec.SignerName
	return func(name string, prefix bool) []string {
		if signer == "" {
			if strings.Contains(name, ":") {
				return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
			}
			return validation.NameIsDNSSubdomain(name, prefix)
		}
		rest, ok := strings.CutPrefix(name, strings.ReplaceAll(signer, "/", ":")+":")
		if !ok {
			return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, strings.ReplaceAll(signer, "/", ":")+":")}
		}
		return validation.NameIsDNSSubdomain(rest, prefix)
	}
}

// mostBundle is the largest size of the certificates of a bundle, in bytes.
const mostBundle = 1 << 20

// validateCertificates checks that a text has certificates as PEM blocks without headers, at least
// one, and each once.
func validateCertificates(text string, path *field.Path) (errs field.ErrorList) {
	if len(text) > mostBundle {
		return field.ErrorList{field.TooLong(path, "", mostBundle)}
	}
	seen := map[string]bool{}
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		_, err := x509.ParseCertificate(block.Bytes)
		switch {
		case block.Type != "CERTIFICATE":
			errs = append(errs, field.Invalid(path, "<value omitted>", "the block type must be CERTIFICATE"))
		case len(block.Headers) > 0:
			errs = append(errs, field.Invalid(path, "<value omitted>", "the block has PEM block headers"))
		case err != nil:
			errs = append(errs, field.Invalid(path, "<value omitted>", "the block does not parse as a certificate"))
		case seen[string(block.Bytes)]:
			errs = append(errs, field.Invalid(path, "<value omitted>", "duplicate trust anchor"))
		}
		seen[string(block.Bytes)] = true
	}
	if len(seen) == 0 {
		errs = append(errs, field.Invalid(path, "<value omitted>", "at least one trust anchor must be provided"))
	}
	return errs
}
