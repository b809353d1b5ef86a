package building

import "testing"

// inNamespace and skipWithout are helpers of package mounttest, which imports this package: the
// tests of package building_test set them.
var (
	inNamespace func(t *testing.T) bool
	skipWithout func(t testing.TB, thing string, why any)
)

// SetHelpers sets inNamespace and skipWithout.
func SetHelpers(namespace func(t *testing.T) bool, skip func(t testing.TB, thing string, why any)) {
	inNamespace, skipWithout = namespace, skip
}
