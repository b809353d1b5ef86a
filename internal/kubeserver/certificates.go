package kubeserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Names of the files in the server's directory.
const (
	servingCertificateFile = "serving.crt"
	servingKeyFile         = "serving.key"
	accountKeyFile         = "account.key"
	tokenFile              = "tokens.csv"
)

// An authority is a certificate authority.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

// newAuthority returns a new certificate authority that is valid for 24 hours.
func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &authority{key, certificate}, err
}

// pem returns the authority's certificate as PEM.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// issue writes a serving certificate for an address and its key into dir.
func (a *authority) issue(dir string, address net.IP, from, until time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{address},
	}, a.certificate, key.Public(), a.key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	// The server reloads the pair when either file changes, so the key comes first: a key
	// without its certificate is refused, and the next reload finds both.
	return errors.Join(
		replaceFile(dir, servingKeyFile, &pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		replaceFile(dir, servingCertificateFile, &pem.Block{Type: "CERTIFICATE", Bytes: der}),
	)
}

// writeAccountKey writes the key that signs the tokens of service accounts.
func writeAccountKey(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	return replaceFile(dir, accountKeyFile, &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

// replaceFile writes the block as PEM and renames the new file over an existing one.
func replaceFile(dir, name string, block *pem.Block) error {
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file+".new", pem.EncodeToMemory(block), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(file+".new", file)
}
