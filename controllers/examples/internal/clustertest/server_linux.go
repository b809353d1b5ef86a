package clustertest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/apicalls"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/rightstest"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A Server is a real API server with the manifests of a program.
type Server struct {
	*rightstest.Program
	Admin   *kubernetes.Clientset
	Account *rest.Config // of the program's service account, which records its calls

	url       string
	authority []byte
	user      string // the name of the service account
}

// Start starts an API server and creates the objects of the manifests, in their order. One of them must be
// the only service account.
func Start(t *testing.T, manifests ...string) *Server {
	server := kubeserver.Start(t)
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: server.CA}, QPS: -1}
	admin := rest.CopyConfig(config)
	admin.BearerToken = server.Token
	s := &Server{Account: config, url: server.URL, authority: server.CA}
	s.Program = &rightstest.Program{T: t, Calls: &apicalls.Recorder{}, Review: s.review}
	var err error
	s.Admin, err = kubernetes.NewForConfig(admin)
	require.NoError(t, err)
	for _, name := range []string{metav1.NamespaceSystem, v1.NamespaceNodeLease, v1.NamespaceDefault} {
		require.Eventually(t, func() bool { // the API server creates them after its start
			_, err := s.Admin.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
			return err == nil
		}, time.Minute, 20*time.Millisecond)
	}
	for _, file := range manifests {
		for _, object := range Objects(t, file) {
			require.NoError(t, s.Create(object), file)
		}
	}
	s.Account.Wrap(s.Calls.Wrap)
	return s
}

// Create creates an object as the administrator.
func (s *Server) Create(object runtime.Object) (err error) {
	ctx, rbac, core, options := s.Context(), s.Admin.RbacV1(), s.Admin.CoreV1(), metav1.CreateOptions{}
	switch o := object.(type) {
	case *v1.Namespace:
		_, err = core.Namespaces().Create(ctx, o, options)
	case *v1.ServiceAccount:
		if _, err = core.ServiceAccounts(o.Namespace).Create(ctx, o, options); err == nil && s.user == "" {
			err = s.becomeAccount(ctx, o)
		}
	case *rbacv1.ClusterRole:
		_, err = rbac.ClusterRoles().Create(ctx, o, options)
		s.Roles = append(s.Roles, rightstest.OfClusterRole(ctx, rbac.ClusterRoles(), o))
	case *rbacv1.Role:
		_, err = rbac.Roles(o.Namespace).Create(ctx, o, options)
		s.Roles = append(s.Roles, rightstest.OfRole(ctx, rbac.Roles(o.Namespace), o))
	case *rbacv1.ClusterRoleBinding:
		_, err = rbac.ClusterRoleBindings().Create(ctx, o, options)
	case *rbacv1.RoleBinding:
		_, err = rbac.RoleBindings(o.Namespace).Create(ctx, o, options)
	case *v1.ConfigMap:
		_, err = core.ConfigMaps(o.Namespace).Create(ctx, o, options)
	case *v1.Secret:
		_, err = core.Secrets(o.Namespace).Create(ctx, o, options)
	case *v1.Pod:
		_, err = core.Pods(o.Namespace).Create(ctx, o, options)
	default:
		err = fmt.Errorf("%T: not expected", object)
	}
	return err
}

// review reports whether the service account has a right.
func (s *Server) review(attributes *authorizationv1.ResourceAttributes) (allowed bool, err error) {
	return rightstest.Review(s.Context(), s.Admin.AuthorizationV1().SubjectAccessReviews(), s.user, attributes)
}

// becomeAccount requests the token of the program's service account.
func (s *Server) becomeAccount(ctx context.Context, account *v1.ServiceAccount) error {
	token, err := s.Admin.CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if token.Status.Token == "" {
		return errors.New("the API server has issued no token")
	}
	s.user = "system:serviceaccount:" + account.Namespace + ":" + account.Name
	s.Account.BearerToken = token.Status.Token
	return nil
}

// Kubeconfig writes a file with the credentials of the program's service account, and returns its path.
func (s *Server) Kubeconfig() string {
	s.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: s.url, CertificateAuthorityData: s.authority}
	config.AuthInfos["program"] = &clientcmdapi.AuthInfo{Token: s.Account.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "program"}
	config.CurrentContext = "test"
	file := filepath.Join(s.TempDir(), "kubeconfig")
	require.NoError(s, clientcmd.WriteToFile(*config, file))
	return file
}
