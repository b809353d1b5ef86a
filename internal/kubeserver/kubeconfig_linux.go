package kubeserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const kubeconfigText = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// WriteKubeconfig writes the configuration of a client with all rights to a directory, and returns the path of its file.
func (s *Server) WriteKubeconfig(dir string) (path string, err error) {
	path, authority := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "ca.crt")
	text := fmt.Sprintf(kubeconfigText, s.URL, authority, s.Token)
	return path, errors.Join(os.WriteFile(authority, s.CA, 0o600), os.WriteFile(path, []byte(text), 0o600))
}
