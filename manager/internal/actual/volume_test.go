package actual

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestKnownSize: the larger of the size and the claimed size is known, and a claimed size replaces
// one of an earlier run.
func TestKnownSize(t *testing.T) {
	size := func(text string) *resource.Quantity {
		if text == "" {
			return nil
		}
		q := resource.MustParse(text)
		return &q
	}
	for name, test := range map[string]struct {
		size, claimed, want string // empty: not known
		isOld               bool
	}{
		"none":                          {},
		"size alone":                    {size: "1Gi", want: "1Gi"},
		"recorded size alone":           {size: "1Gi", isOld: true, want: "1Gi"},
		"claimed alone":                 {claimed: "1Gi", want: "1Gi"},
		"larger claimed":                {size: "1Gi", claimed: "2Gi", want: "2Gi"},
		"smaller claimed":               {size: "2Gi", claimed: "1Gi", want: "2Gi"},
		"larger claimed than recorded":  {size: "1Gi", isOld: true, claimed: "2Gi", want: "2Gi"},
		"smaller claimed than recorded": {size: "2Gi", isOld: true, claimed: "1Gi", want: "1Gi"},
	} {
		v := &Volume{Size: size(test.size), SizeIsOld: test.isOld}
		require.Equal(t, size(test.want).String(), v.KnownSize(size(test.claimed)).String(), name)
	}
}
