package quantity_test

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/util/quantity"
)

func ExampleBytes() {
	size := resource.MustParse("1.5Gi")
	bytes, err := quantity.Bytes(&size)
	fmt.Println(bytes, err)

	size = resource.MustParse("1e99999999") // its Value method would take minutes
	_, err = quantity.Bytes(&size)
	fmt.Println(errors.Is(err, quantity.ErrTooLarge))
	// Output:
	// 1610612736 <nil>
	// true
}

// Methods of a quantity are called after Check has accepted it.
func ExampleCheck() {
	asked, given := resource.MustParse("10Gi"), resource.MustParse("10G")
	for _, q := range []*resource.Quantity{&asked, &given} {
		if err := quantity.Check(q); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("large enough:", given.Cmp(asked) >= 0)
	// Output: large enough: false
}

func ExampleCheckOf() {
	size := resource.MustParse("1e30")
	fmt.Println(quantity.CheckOf("spec.capacity.storage", &size))
	// Output: spec.capacity.storage is 1e30: too large
}

func ExampleText() {
	size := resource.MustParse("1e99999999")
	fmt.Println(quantity.Text(&size))
	// Output: 1e99999999
}
