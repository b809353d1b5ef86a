package quantity_test

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/util/quantity"
)

func TestBytes(t *testing.T) {
	for _, test := range []struct {
		written string
		want    int64
		err     error
	}{
		{"0", 0, nil},
		{"1", 1, nil},
		{"-1", -1, nil},
		{"1n", 1, nil},
		{"-1n", -1, nil},
		{"1500m", 2, nil},
		{"-1500m", -2, nil},
		{"-12345678901.000000001", -12345678902, nil},
		{"1.5Gi", 3 << 29, nil},
		{"2e3", 2000, nil},
		{"7Ei", 7 << 60, nil},
		{"9223372036854775807", math.MaxInt64, nil},
		{"-9223372036854775808", math.MinInt64, nil},
		{"9223372036854775808", 0, quantity.ErrTooLarge},
		{"-9223372036854775809", 0, quantity.ErrTooLarge},
		{"9223372036854775807.1", 0, quantity.ErrTooLarge},
		{"1e20", 0, quantity.ErrTooLarge},
		{"-1e20", 0, quantity.ErrTooLarge},
		{"0e20", 0, nil},
		{strings.Repeat("9", 1000), 0, quantity.ErrTooLarge},
	} {
		q := resource.MustParse(test.written)
		before := q.DeepCopy()
		got, err := quantity.Bytes(&q)
		require.Equal(t, test.err, err, test.written)
		require.Equal(t, test.want, got, test.written)
		require.Equal(t, test.err, quantity.Check(&q), test.written)
		_ = quantity.Text(&q)
		require.Equal(t, before, q, "%s is only read", test.written)
	}
	got, err := quantity.Bytes(nil)
	require.NoError(t, err)
	require.Zero(t, got)
}

func TestHostileExponents(t *testing.T) {
	zero := resource.MustParse("0e99999999")
	large := resource.MustParse("1e99999999")
	for _, test := range []struct {
		q    *resource.Quantity
		text string
		err  error
	}{
		{&large, "1e99999999", quantity.ErrTooLarge},
		{&zero, "0e99999999", quantity.ErrTooLarge},
		// These take as long to decode, but need not come from there.
		{resource.NewScaledQuantity(1, -99999999), "1e-99999999", quantity.ErrTooFine},
		{resource.NewScaledQuantity(-1, math.MaxInt32), "-1e2147483647", quantity.ErrTooLarge},
		{resource.NewScaledQuantity(0, math.MinInt32+1), "0e-2147483647", quantity.ErrTooFine},
	} {
		inTime(t, test.text, func() {
			_, err := quantity.Bytes(test.q)
			require.Equal(t, test.err, err, test.text)
			require.Equal(t, test.text, quantity.Text(test.q))
		})
	}
}

func TestManyDigits(t *testing.T) {
	var q resource.Quantity
	q.AsDec().SetUnscaledBig(new(big.Int).Lsh(big.NewInt(1), 1<<26))
	inTime(t, "a number of 8 MiB", func() {
		require.Equal(t, quantity.ErrTooLarge, quantity.Check(&q))
		require.Equal(t, "a number of 67108865 bits", quantity.Text(&q))
	})
}

func TestText(t *testing.T) {
	for _, written := range []string{"0", "1Gi", "1500m", "-3k", "2e3", "100000000000000000000"} {
		q := resource.MustParse(written)
		want := q.DeepCopy()
		require.Equal(t, want.String(), quantity.Text(&q))
	}
	require.Equal(t, "<nil>", quantity.Text(nil))
}

func inTime(t *testing.T, what string, work func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		work()
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: does not end", what)
	}
}
