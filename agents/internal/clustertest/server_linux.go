package clustertest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

	"github.com/volumekit/volumekit/agents/internal/manifest"
	"github.com/volumekit/volumekit/internal/apicalls"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/rightstest"
)

// A Server is a real API server.
type Server struct {
	*testing.T
	Store *kubeserver.Server
	Admin *kubernetes.Clientset
}

// Start starts an API server, and waits for its namespaces.
func Start(t *testing.T) *Server {
	t.Helper()
	s := &Server{T: t, Store: kubeserver.Start(t)}
	var err error
	s.Admin, err = kubernetes.NewForConfig(s.config(s.Store.Token))
	require.NoError(t, err)
	for _, name := range []string{metav1.NamespaceSystem, v1.NamespaceNodeLease, v1.NamespaceDefault} {
		require.Eventually(t, func() bool {
			_, err := s.Admin.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
			return err == nil
		}, time.Minute, 20*time.Millisecond)
	}
	return s
}

// config returns the configuration of a client with a token.
func (s *Server) config(token string) *rest.Config {
	return &rest.Config{Host: s.Store.URL, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: s.Store.CA}}
}

// An Account is the service account of a program.
type Account struct {
	*rightstest.Program
	Config *rest.Config // of a client of the account, which records its calls
	server *Server
}

// NewAccount creates the objects of manifests, in their order, and returns the only service account among them, once the
// API server grants its rights.
func (s *Server) NewAccount(manifests ...string) *Account {
	s.Helper()
	a := &Account{Program: &rightstest.Program{T: s.T, Calls: &apicalls.Recorder{}}, server: s}
	rbac := s.Admin.RbacV1()
	for _, file := range manifests {
		for _, object := range manifest.Objects(s.T, file) {
			require.NoError(s, s.Create(object), file)
			switch o := object.(type) {
			case *v1.ServiceAccount:
				a.become(o)
			case *rbacv1.ClusterRole:
				a.Roles = append(a.Roles, rightstest.OfClusterRole(s.Context(), rbac.ClusterRoles(), o))
			case *rbacv1.Role:
				a.Roles = append(a.Roles, rightstest.OfRole(s.Context(), rbac.Roles(o.Namespace), o))
			}
		}
	}
	require.NotNil(s, a.Config, "no service account")
	a.AwaitGranted()
	return a
}

// Create creates an object as the administrator.
func (s *Server) Create(object runtime.Object) (err error) {
	ctx, rbac, core, options := s.Context(), s.Admin.RbacV1(), s.Admin.CoreV1(), metav1.CreateOptions{}
	switch o := object.(type) {
	case *v1.Namespace:
		_, err = core.Namespaces().Create(ctx, o, options)
	case *v1.ServiceAccount:
		_, err = core.ServiceAccounts(o.Namespace).Create(ctx, o, options)
	case *rbacv1.ClusterRole:
		_, err = rbac.ClusterRoles().Create(ctx, o, options)
	case *rbacv1.Role:
		_, err = rbac.Roles(o.Namespace).Create(ctx, o, options)
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

// become requests a token of a service account.
func (a *Account) become(account *v1.ServiceAccount) {
	a.Helper()
	require.Nil(a, a.Config, "a second service account")
	token, err := a.server.Admin.CoreV1().ServiceAccounts(account.Namespace).CreateToken(a.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(a, err)
	require.NotEmpty(a, token.Status.Token)
	a.Config = a.server.config(token.Status.Token)
	a.Config.Wrap(a.Calls.Wrap)
	user := "system:serviceaccount:" + account.Namespace + ":" + account.Name
	a.Review = func(attributes *authorizationv1.ResourceAttributes) (bool, error) {
		return rightstest.Review(a.Context(), a.server.Admin.AuthorizationV1().SubjectAccessReviews(), user, attributes)
	}
}

// Kubeconfig writes a file with the credentials of the account, and returns its path.
func (a *Account) Kubeconfig() string {
	a.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: a.Config.Host, CertificateAuthorityData: a.Config.CAData}
	config.AuthInfos["program"] = &clientcmdapi.AuthInfo{Token: a.Config.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "program"}
	config.CurrentContext = "test"
	file := filepath.Join(a.TempDir(), "kubeconfig")
	require.NoError(a, clientcmd.WriteToFile(*config, file))
	return file
}

// Start runs a part of the cluster until the end of the test. An error of the part fails the test.
func (s *Server) Start(part func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	s.Cleanup(func() {
		cancel()
		require.NoError(s, <-ended)
	})
}
