package apitest

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of the entries of a CSINode.
const (
	maxDriverName = 63
	maxNodeID     = 256
)

var csiNodeKind = newKind(kind{resource: storage("csinodes"), conditional: true}, rules[*storagev1.CSINode]{
	validate: func(n *storagev1.CSINode) (errs field.ErrorList) {
		names := map[string]bool{}
		for i, d := range n.Spec.Drivers {
			path := specPath.Child("drivers").Index(i)
			errs = append(errs, checkNodeDriver(d, path)...)
			if names[d.Name] {
				errs = append(errs, field.Duplicate(path.Child("name"), d.Name))
			}
			names[d.Name] = true
		}
		return errs
	},
	validateUpdate: func(n, old *storagev1.CSINode) (errs field.ErrorList) {
		for i, d := range n.Spec.Drivers {
			for _, o := range old.Spec.Drivers {
				o.Allocatable = d.Allocatable
				if d.Name == o.Name && !equality.Semantic.DeepEqual(d, o) {
					errs = append(errs, field.Invalid(specPath.Child("drivers").Index(i), d.Name, "field is immutable"))
				}
			}
		}
		return errs
	},
})

// checkNodeDriver returns the errors of one entry of a CSINode.
func checkNodeDriver(d storagev1.CSINodeDriver, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, required(d.Name, path.Child("name"))...)
	errs = append(errs, required(d.NodeID, path.Child("nodeID"))...)
	for _, reason := range validation.IsDNS1123Subdomain(strings.ToLower(d.Name)) {
		errs = append(errs, field.Invalid(path.Child("name"), d.Name, reason))
	}
	if len(d.Name) > maxDriverName {
		errs = append(errs, field.TooLong(path.Child("name"), d.Name, maxDriverName))
	}
	if len(d.NodeID) > maxNodeID {
		errs = append(errs, field.TooLong(path.Child("nodeID"), d.NodeID, maxNodeID))
	}
	if d.Allocatable != nil && d.Allocatable.Count != nil && *d.Allocatable.Count < 0 {
		errs = append(errs, field.Invalid(path.Child("allocatable", "count"), *d.Allocatable.Count, "must be greater than or equal to 0"))
	}
	keys := map[string]bool{}
	for _, key := range d.TopologyKeys {
		for _, reason := range validation.IsQualifiedName(key) {
			errs = append(errs, field.Invalid(path, key, reason))
		}
		if keys[key] {
			errs = append(errs, field.Duplicate(path, key))
		}
		keys[key] = true
	}
	return errs
}
