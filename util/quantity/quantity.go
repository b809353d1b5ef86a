package quantity

import (
	"errors"
	"fmt"
	"math"

	"github.com/volumekit/volumekit/internal/input"
	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	// ErrTooLarge reports a quantity whose value is not an int64, or that is written
	// with an exponent of more than 20, which no int64 needs.
	ErrTooLarge = errors.New("too large")
	// ErrTooFine reports a quantity that has digits beyond the ninth after the point:
	// decoding rounds such digits away.
	ErrTooFine = errors.New("finer than 1n")
)

const (
	finest  = 9   // digits after the point: 1n
	largest = 20  // zeros behind the number: more than the digits of an int64
	bits    = 128 // of the number; a longer number is too large even in units of 1n
)

// Check returns nil if the methods of q may be called: all of them return soon, and the
// value, rounded away from zero, is an int64. Otherwise Check returns [ErrTooLarge] or
// [ErrTooFine]. A nil quantity is valid.
func Check(q *resource.Quantity) error {
	_, err := Bytes(q)
	return err
}

// CheckOf is Check with an error that shows the quantity and names its field, what.
func CheckOf(what string, q *resource.Quantity) error {
	if err := Check(q); err != nil {
		return fmt.Errorf("%s is %s: %w", what, input.Shorten(Text(q)), err)
	}
	return nil
}

// Bytes returns the value of q, rounded away from zero. The value may be negative; that of
// nil is 0. The errors are those of [Check].
func Bytes(q *resource.Quantity) (int64, error) {
	if q == nil {
		return 0, nil
	}
	c := q.DeepCopy() // AsDec and String change their receiver
	if err := checkSpelling(&c); err != nil {
		return 0, err
	}
	if c.CmpInt64(math.MaxInt64) > 0 || c.CmpInt64(math.MinInt64) < 0 {
		return 0, ErrTooLarge
	}
	if c.Sign() < 0 { // after AsDec, Value rounds up
		c.Neg()
		return -c.Value(), nil
	}
	return c.Value(), nil
}

// checkSpelling checks the number's digits and exponent without computing its value.
func checkSpelling(q *resource.Quantity) error {
	switch number := q.AsDec(); {
	case number.Scale() > finest:
		return ErrTooFine
	case number.Scale() < -largest, number.UnscaledBig().BitLen() > bits:
		return ErrTooLarge
	}
	return nil
}

// Text returns q for display: as resource.Quantity prints it, or as its number and
// exponent if printing it would take long.
func Text(q *resource.Quantity) string {
	if q == nil {
		return "<nil>"
	}
	c := q.DeepCopy()
	if checkSpelling(&c) == nil {
		shown := q.DeepCopy() // keeps the original text, which AsDec may lose
		return shown.String()
	}
	number := c.AsDec()
	if n := number.UnscaledBig(); n.BitLen() <= bits {
		return fmt.Sprintf("%de%d", n, -int64(number.Scale()))
	}
	return fmt.Sprintf("a number of %d bits", number.UnscaledBig().BitLen())
}
