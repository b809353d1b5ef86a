package clustertest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/internal/apicalls"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A role is a ClusterRole, or the Role of a namespace.
type role struct {
	namespace string
	rules     []rbacv1.PolicyRule
	// store replaces the rules on the API server.
	store func(rules []rbacv1.PolicyRule) error
}

// Rights are verbs with resources, such as "list pods", with the answers of the API server: true for
// allowed.
type Rights map[string]bool

// Add adds the answers to calls. A right that was denied once is denied.
func (r Rights) Add(calls []apicalls.Call) {
	for _, call := range calls {
		if allowed, known := r[call.Right()]; call.Code != 0 && (allowed || !known) {
			r[call.Right()] = call.Code != 403
		}
	}
}

// Unseen returns the needed rights that r lacks.
func (r Rights) Unseen(needed Rights) (missing []string) {
	for right := range needed {
		if _, ok := r[right]; !ok {
			missing = append(missing, right)
		}
	}
	return missing
}

// IsDenied reports whether the API server has denied a right.
func (r Rights) IsDenied(right string) bool {
	allowed, known := r[right]
	return known && !allowed
}

func rightsOf(rules []rbacv1.PolicyRule) Rights {
	all := Rights{}
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all[verb+" "+resource] = true
			}
		}
	}
	return all
}

// Granted returns the rights of the manifests.
func (s *Server) Granted() Rights {
	all := Rights{}
	for _, role := range s.roles {
		maps.Copy(all, rightsOf(role.rules))
	}
	return all
}

// RequireRights requires that a program exercises the rights of the manifests, with the others, which each
// service account has, and no further ones, and that the API server denies a call of the program without
// any single one of the rights of the manifests. exercise runs the program until it has exercised all of
// them or the missing one; it returns the rights that the program has exercised.
func (s *Server) RequireRights(others Rights, exercise func(missing string) Rights) {
	s.Helper()
	all := s.Granted()
	rights := slices.Sorted(maps.Keys(all))
	maps.Copy(all, others)
	require.Equal(s, all, exercise(""))
	for _, right := range rights {
		restore := s.remove(right)
		require.True(s, exercise(right).IsDenied(right), "the program does not miss the right: %s", right)
		restore()
	}
}

// Exercise runs a program until it has exercised all rights of the manifests, or the missing one, and
// returns the exercised ones. The steps of users are taken meanwhile.
func (s *Server) Exercise(missing string, program func(context.Context) error, step func()) Rights {
	s.Helper()
	s.Calls.Take()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- program(ctx) }()
	seen, needed := Rights{}, s.Granted()
	for !seen.IsDenied(missing) && len(seen.Unseen(needed)) > 0 {
		step()
		seen.Add(s.Calls.Take())
		select {
		case err := <-ended:
			require.NoError(s, err)
			require.Fail(s, "the program has ended", "without exercising %q", seen.Unseen(needed))
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	require.NoError(s, <-ended)
	seen.Add(s.Calls.Take())
	return seen
}

// remove takes a right from the program until restore is called.
func (s *Server) remove(right string) (restore func()) {
	s.Helper()
	at := slices.IndexFunc(s.roles, func(r *role) bool { return rightsOf(r.rules)[right] })
	r := s.roles[at]
	require.NoError(s, r.store(without(r.rules, right)))
	s.awaitRight(r, right, false)
	return func() {
		require.NoError(s, r.store(r.rules))
		s.awaitRight(r, right, true)
	}
}

// without returns the rules without a right.
func without(rules []rbacv1.PolicyRule, right string) (rest []rbacv1.PolicyRule) {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if verb+" "+resource != right {
					rest = append(rest, rbacv1.PolicyRule{APIGroups: rule.APIGroups, Resources: []string{resource}, Verbs: []string{verb}})
				}
			}
		}
	}
	return rest
}

// awaitRight waits until the API server applies a change of a role.
func (s *Server) awaitRight(r *role, right string, allowed bool) {
	s.Helper()
	verb, resource, _ := strings.Cut(right, " ")
	attributes := &authorizationv1.ResourceAttributes{Verb: verb, Namespace: r.namespace, Group: groupOf(r.rules, resource)}
	attributes.Resource, attributes.Subresource, _ = strings.Cut(resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: s.user, ResourceAttributes: attributes}}
	require.Eventually(s, func() bool {
		answer, err := s.Admin.AuthorizationV1().SubjectAccessReviews().Create(s.Context(), review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed == allowed
	}, time.Minute, 5*time.Millisecond)
}

// groupOf returns the API group of a resource of the rules.
func groupOf(rules []rbacv1.PolicyRule, resource string) string {
	at := slices.IndexFunc(rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, resource) })
	return rules[at].APIGroups[0]
}
