package quantity

import (
	"errors"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	// ErrTooLarge is of a quantity whose value is not an int64, or that is written
	// with an exponent of more than 20, which no such value needs.
	ErrTooLarge = errors.New("too large")
	// ErrTooFine is of a quantity that has digits beyond the ninth after the point:
	// decoding rounds them away.
	ErrTooFine = errors.New("finer than 1n")
)

const (
	finest  = 9   // digits after the point: 1n
	largest = 20  // zeros behind the number: more than an int64 has digits
	bits    = 128 // of the number; what has more is too large, at the finest too
)

// Check returns nil if the methods of q may be called: all of them end soon, and the
// value, rounded away from zero, is an int64. Otherwise it returns [ErrTooLarge] or
// [ErrTooFine]. A nil quantity has no value to be wrong.
func Check(q *resource.Quantity) error {
	_, err := Bytes(q)
	return err
}

// CheckOf is Check with an error that shows the quantity and says what it is of.
func CheckOf(what string, q *resource.Quantity) error {
	if err := Check(q); err != nil {
		return fmt.Errorf("%s is %.80s: %w", what, Text(q), err)
	}
	return nil
}

// Bytes returns the value of q, rounded away from zero, which may be negative; 0 of
// nil. The errors are those of [Check].
func Bytes(q *resource.Quantity) (int64, error) {
	if q == nil {
		return 0, nil
	}
	c := q.DeepCopy() // AsDec and String change what they are called on
	if err := checkSpelling(&c); err != nil {
		return 0, err
	}
	if c.CmpInt64(math.MaxInt64) > 0 || c.CmpInt64(math.MinInt64) < 0 {
		return 0, ErrTooLarge
	}
	if c.Sign() < 0 { // Value rounds up what AsDec has been called on
		c.Neg()
		return -c.Value(), nil
	}
	return c.Value(), nil
}

// checkSpelling looks at how the number is kept, and computes nothing.
func checkSpelling(q *resource.Quantity) error {
	switch number := q.AsDec(); {
	case number.Scale() > finest:
		return ErrTooFine
	case number.Scale() < -largest, number.UnscaledBig().BitLen() > bits:
		return ErrTooLarge
	}
	return nil
}

// Text returns q as it is to be shown: what resource.Quantity shows, if it can do so
// soon.
func Text(q *resource.Quantity) string {
	if q == nil {
		return "<nil>"
	}
	c := q.DeepCopy()
	if checkSpelling(&c) == nil {
		shown := q.DeepCopy() // as it was written, which AsDec may lose
		return shown.String()
	}
	number := c.AsDec()
	if n := number.UnscaledBig(); n.BitLen() <= bits {
		return fmt.Sprintf("%de%d", n, -int64(number.Scale()))
	}
	return fmt.Sprintf("a number of %d bits", number.UnscaledBig().BitLen())
}
