// Package quantity reads quantities that somebody else wrote.
//
// A [resource.Quantity] is a number and an exponent, and decodes at once whatever the
// exponent is. Its methods then write the number out: "1e99999999" has a hundred
// million digits, and Cmp, Add or Value of it take minutes, or loop once for each.
// So what comes from a pod, a volume or a claim is asked here first:
//
//	bytes, err := quantity.Bytes(pod.Spec.Volumes[0].EmptyDir.SizeLimit)
//
// All functions only read the quantity, which other goroutines may do meanwhile, and
// compute nothing of which the exponent says how long it takes. They link the quantity
// of apimachinery, nothing else.
package quantity
