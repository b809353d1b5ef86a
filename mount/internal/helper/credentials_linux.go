package helper

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/options"
	"golang.org/x/sys/unix"
)

// credentialsKeys are the names that mount.cifs has for the option with a file of
// credentials.
var credentialsKeys = []string{"credentials", "cred"}

// maxCredentials limits the size of a file of credentials.
const maxCredentials = 64 << 10

// readCredentials returns the content of the files of credentials that the secrets name, and
// the other secrets. The helper receives a copy of the files, so that it prints neither their
// names nor an unredacted line.
func readCredentials(fsType string, secrets []options.Secret) (content string, rest []options.Secret, err error) {
	if secretFormats[fsType].option != "credentials=" {
		return "", secrets, nil
	}
	for i, secret := range secrets {
		key, name, _ := strings.Cut(secret.Reveal(), "=")
		if !slices.Contains(credentialsKeys, key) {
			rest = append(rest, secret)
			continue
		}
		text, err := readCredentialsFile(name)
		if err != nil {
			return "", nil, fmt.Errorf("file of credentials, Secrets[%d]: %w", i, err)
		}
		content += strings.TrimSuffix(text, "\n") + "\n"
	}
	return content, rest, nil
}

// readCredentialsFile reads a regular file, and does not wait for the writer of a pipe. Its
// errors omit the name, which is a secret.
func readCredentialsFile(name string) (string, error) {
	if !filepath.IsAbs(name) {
		return "", errors.New("the path must be absolute")
	}
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", withoutPath(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxCredentials+1))
	if err == nil && len(text) > maxCredentials {
		err = fmt.Errorf("larger than %d bytes", maxCredentials)
	}
	return string(text), withoutPath(err)
}

// withoutPath returns the cause of an error that names a path.
func withoutPath(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// splitCredentials returns the lines of a file of credentials as secrets.
func splitCredentials(content string) (secrets []options.Secret) {
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line != "" {
			secrets = append(secrets, options.NewSecret(line))
		}
	}
	return secrets
}
