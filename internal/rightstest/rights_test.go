package rightstest

import (
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/volumekit/volumekit/internal/apicalls"
)

// TestRights: a right is exercised by an answer, and denied by one denial.
func TestRights(t *testing.T) {
	seen, needed := Rights{}, Rights{"get pods": true, "list pods": true, "patch events": true}
	seen.Add([]apicalls.Call{
		{Verb: "get", Resource: "pods", Code: 200}, {Verb: "get", Resource: "pods", Code: 403}, {Verb: "get", Resource: "pods", Code: 200},
		{Verb: "list", Resource: "pods"}, // without an answer
		{Verb: "patch", Resource: "events", Code: 409},
	})
	require.Equal(t, Rights{"get pods": false, "patch events": true}, seen)
	require.Equal(t, []string{"list pods"}, seen.Unseen(needed))
	require.True(t, seen.IsDenied("get pods"))
	require.False(t, seen.IsDenied("list pods"))
	require.False(t, seen.IsDenied("patch events"))
}

// TestRequireRights: the program starts once the API server grants the rights of all its roles.
func TestRequireRights(t *testing.T) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}}
	reviews := map[authorizationv1.ResourceAttributes]int{}
	denied := map[string]bool{}
	role := func(namespace string) *Role {
		r := &Role{Namespace: namespace, Rules: rules}
		r.Store = func(stored []rbacv1.PolicyRule) error {
			for right := range r.rights() {
				denied[right+" "+namespace] = !(&Role{Rules: stored}).rights()[right]
			}
			return nil
		}
		return r
	}
	program := &Program{T: t, Roles: Roles{role(""), role("ns")}, Review: func(a *authorizationv1.ResourceAttributes) (bool, error) {
		reviews[*a]++
		return reviews[*a] > 3 && !denied[a.Verb+" "+a.Resource+" "+a.Namespace], nil
	}}
	exercise := func(missing string) Rights {
		require.Len(t, reviews, 4)
		for attributes, n := range reviews {
			require.Greater(t, n, 3, "%v", attributes)
		}
		rights := Rights{"get pods": true, "list pods": true}
		if missing != "" {
			rights[missing] = false
		}
		return rights
	}
	program.requireExact(nil, exercise)
	program.requireEach(exercise)
}

// TestRoles: one right alone is taken from a role.
func TestRoles(t *testing.T) {
	ofCluster := &Role{Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "events"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments/status"}, Verbs: []string{"patch"}},
	}}
	ofNamespace := &Role{Namespace: "ns", Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}}}
	roles := Roles{ofCluster, ofNamespace}
	all := Rights{"get pods": true, "list pods": true, "get events": true, "list events": true, "patch volumeattachments/status": true, "watch pods": true}
	require.Equal(t, all, roles.Granted())
	require.Equal(t, Roles{ofNamespace}, roles.with("watch pods"))
	require.Equal(t, Roles{ofCluster, ofNamespace}, roles.with("list pods"))
	rest := &Role{Rules: ofCluster.without("list pods")}
	require.Equal(t, Rights{"get pods": true, "get events": true, "list events": true, "patch volumeattachments/status": true}, rest.rights())
	require.Equal(t, []string{"storage.k8s.io"}, rest.Rules[len(rest.Rules)-1].APIGroups)
	require.Equal(t, &authorizationv1.ResourceAttributes{
		Verb: "patch", Group: "storage.k8s.io", Resource: "volumeattachments", Subresource: "status",
	}, ofCluster.attributes("patch volumeattachments/status"))
	require.Equal(t, &authorizationv1.ResourceAttributes{Verb: "watch", Namespace: "ns", Resource: "pods"}, ofNamespace.attributes("watch pods"))
}
