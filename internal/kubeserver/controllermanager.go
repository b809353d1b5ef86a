package kubeserver

import (
	"context"
	"io"
)

var controllerManager = optimizedProgram{
	name: "kube-controller-manager", dir: "controller-manager-" + Version + "-optimized", command: "k8s.io/kubernetes/cmd/kube-controller-manager",
}

// FindControllerManager returns the path of kube-controller-manager in the cache. The error wraps
// fs.ErrNotExist if it is missing.
func FindControllerManager() (string, error) { return controllerManager.find() }

// FetchControllerManager is [Fetch] for kube-controller-manager.
func FetchControllerManager(ctx context.Context, source string, progress io.Writer) (string, error) {
	return controllerManager.fetch(ctx, source, progress)
}
