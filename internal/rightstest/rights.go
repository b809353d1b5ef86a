// Package rightstest tests that the manifests of a program grant the rights that it exercises, and no others.
package rightstest

import (
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/volumekit/volumekit/internal/apicalls"
)

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

// A Role is a ClusterRole, or the Role of a namespace.
type Role struct {
	Namespace string
	Rules     []rbacv1.PolicyRule
	// Store replaces the rules on the API server.
	Store func(rules []rbacv1.PolicyRule) error
}

func (r *Role) rights() Rights {
	all := Rights{}
	for _, rule := range r.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all[verb+" "+resource] = true
			}
		}
	}
	return all
}

// without returns the rules without a right.
func (r *Role) without(right string) (rest []rbacv1.PolicyRule) {
	for _, rule := range r.Rules {
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

// attributes returns the question whether the service account has a right.
func (r *Role) attributes(right string) *authorizationv1.ResourceAttributes {
	verb, resource, _ := strings.Cut(right, " ")
	attributes := &authorizationv1.ResourceAttributes{Verb: verb, Namespace: r.Namespace, Group: r.group(resource)}
	attributes.Resource, attributes.Subresource, _ = strings.Cut(resource, "/")
	return attributes
}

// group returns the API group of a resource.
func (r *Role) group(resource string) string {
	at := slices.IndexFunc(r.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, resource) })
	return r.Rules[at].APIGroups[0]
}

// Roles are the roles of a service account.
type Roles []*Role

// Granted returns the rights of all roles.
func (all Roles) Granted() Rights {
	granted := Rights{}
	for _, role := range all {
		maps.Copy(granted, role.rights())
	}
	return granted
}

// with returns the roles that have a right.
func (all Roles) with(right string) Roles {
	return slices.DeleteFunc(slices.Clone(all), func(role *Role) bool { return !role.rights()[right] })
}
