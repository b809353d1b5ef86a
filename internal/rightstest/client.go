package rightstest

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An Updater is a client of one kind of object. Those of client-go are.
type Updater[T any] interface {
	Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error)
}

// OfClusterRole returns a ClusterRole of the API server.
func OfClusterRole(ctx context.Context, client Updater[*rbacv1.ClusterRole], o *rbacv1.ClusterRole) *Role {
	return &Role{Rules: o.Rules, Store: func(rules []rbacv1.PolicyRule) error {
		changed := o.DeepCopy()
		changed.Rules = rules
		_, err := client.Update(ctx, changed, metav1.UpdateOptions{})
		return err
	}}
}

// OfRole returns a Role of the API server.
func OfRole(ctx context.Context, client Updater[*rbacv1.Role], o *rbacv1.Role) *Role {
	return &Role{Namespace: o.Namespace, Rules: o.Rules, Store: func(rules []rbacv1.PolicyRule) error {
		changed := o.DeepCopy()
		changed.Rules = rules
		_, err := client.Update(ctx, changed, metav1.UpdateOptions{})
		return err
	}}
}

// A Reviewer is a client of access reviews. That of client-go is.
type Reviewer interface {
	Create(ctx context.Context, object *authorizationv1.SubjectAccessReview, opts metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// Review returns the answer of the API server to the question whether a user has a right.
func Review(ctx context.Context, client Reviewer, user string, attributes *authorizationv1.ResourceAttributes) (allowed bool, err error) {
	answer, err := client.Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: attributes},
	}, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed, err
}
