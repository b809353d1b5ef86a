// Package quantity checks Kubernetes quantities from untrusted sources before use.
//
// A [resource.Quantity] is a number and an exponent, and decodes at once for any
// exponent. Its methods then write the number out: "1e99999999" has a hundred
// million digits, and Cmp, Add or Value of it take minutes, or loop once for each.
// Check the quantities of pods, volumes and claims here first:
//
//	bytes, err := quantity.Bytes(pod.Spec.Volumes[0].EmptyDir.SizeLimit)
//
// All functions only read the quantity, so that concurrent calls are safe, and take no
// longer for a large exponent. The package links the quantity of apimachinery, nothing
// else.
package quantity
