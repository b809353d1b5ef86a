package service

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// NamespaceFile is the file with the namespace of a pod's service account.
const NamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Namespace returns the namespace in a file, or "default" without the file, outside of a cluster.
func Namespace(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return "default", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the namespace of the service account: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
