package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/manifest"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
)

// TestDeployment: the manifests name one service account, and the program accepts their arguments.
func TestDeployment(t *testing.T) {
	deployment := manifest.Read[*appsv1.Deployment](t, "deployment.yaml")
	pod := deployment.Spec.Template.Spec
	account := manifest.Read[*v1.ServiceAccount](t, "rbac.yaml")
	require.Equal(t, deployment.Namespace+"/"+pod.ServiceAccountName, account.Namespace+"/"+account.Name)
	require.Equal(t, "POD_NAMESPACE", pod.Containers[0].Env[0].Name)
	o, err := parseOptions(pod.Containers[0].Args, func(string) string { return deployment.Namespace }, io.Discard)
	require.NoError(t, err)
	require.Equal(t, options{
		controllers: selection{every}, election: true, lease: "volumekit-controlplane", namespace: deployment.Namespace,
		kubeconfig: deployment.Namespace, listen: ":8080",
		nfs: recycling{minimum: 300, increment: 30}, hostPath: recycling{minimum: 60, increment: 30},
	}, o)
}
