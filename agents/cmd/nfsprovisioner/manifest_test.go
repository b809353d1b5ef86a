package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/manifest"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// TestRights: the ClusterRole has the rights that package provision documents for a provisioner
// whose volumes are not attached, with those to write events, and no others.
func TestRights(t *testing.T) {
	var found []string
	for _, object := range manifest.Objects(t, "rbac.yaml") {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			found = append(found, rightsOf(o.Rules)...)
		case *rbacv1.Role:
			require.Equal(t, []string{"leases: create get update"}, rightsOf(o.Rules))
		}
	}
	require.ElementsMatch(t, []string{
		"persistentvolumeclaims: get list patch watch", "persistentvolumes: create delete get list patch watch",
		"storageclasses: get list watch", "pods: list", "nodes: get", "volumeattributesclasses: get", "events: create patch",
	}, found)
	text, err := os.ReadFile("../../../controllers/provision/doc.go")
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", "")), " "),
		"requires these rights: get, list, watch and patch of persistentvolumeclaims; get, list, watch, create, patch and delete of "+
			"persistentvolumes; list and watch of storageclasses; list of pods; get of nodes if classes wait for a consumer, and of "+
			"volumeattributesclasses if claims name them;", // and this program reads the classes of old volumes
		"the rights of package provision have changed")
}

func rightsOf(rules []rbacv1.PolicyRule) (rights []string) {
	for _, rule := range rules {
		slices.Sort(rule.Verbs)
		for _, resource := range rule.Resources {
			rights = append(rights, resource+": "+strings.Join(rule.Verbs, " "))
		}
	}
	return rights
}

// TestDeployment: the manifests name one service account, and the program accepts their environment,
// arguments and class.
func TestDeployment(t *testing.T) {
	deployment := manifest.Read[*appsv1.Deployment](t, "deployment.yaml")
	pod := deployment.Spec.Template.Spec
	account := manifest.Read[*v1.ServiceAccount](t, "rbac.yaml")
	require.Equal(t, deployment.Namespace+"/"+pod.ServiceAccountName, account.Namespace+"/"+account.Name)
	env := map[string]string{"POD_NAMESPACE": deployment.Namespace}
	for _, variable := range pod.Containers[0].Env {
		env[variable.Name] = variable.Value
	}
	o, err := parseOptions(pod.Containers[0].Args, func(name string) string { return env[name] }, nil)
	require.NoError(t, err)
	require.True(t, o.election)
	require.Equal(t, &v1.NFSVolumeSource{Server: o.server, Path: o.path}, pod.Volumes[0].NFS)
	require.Equal(t, usualDir, pod.Containers[0].VolumeMounts[0].MountPath)

	class := manifest.Read[*storagev1.StorageClass](t, "class.yaml")
	require.Equal(t, o.provisioner, class.Provisioner)
	r := newRig(t)
	r.start()
	r.WaitUntilBound(r.claim("data", class.Parameters))
}
