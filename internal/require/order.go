package require

import (
	"cmp"
	"fmt"
)

// Greater fails unless a is greater than b.
func Greater[N cmp.Ordered](t TestingT, a, b N, message ...any) {
	t.Helper()
	if a <= b {
		fail(t, fmt.Sprintf("%v is not greater than %v", a, b), message)
	}
}

// GreaterOrEqual fails if a is less than b.
func GreaterOrEqual[N cmp.Ordered](t TestingT, a, b N, message ...any) {
	t.Helper()
	if a < b {
		fail(t, fmt.Sprintf("%v is less than %v", a, b), message)
	}
}

// Less fails unless a is less than b.
func Less[N cmp.Ordered](t TestingT, a, b N, message ...any) {
	t.Helper()
	if a >= b {
		fail(t, fmt.Sprintf("%v is not less than %v", a, b), message)
	}
}

// LessOrEqual fails if a is greater than b.
func LessOrEqual[N cmp.Ordered](t TestingT, a, b N, message ...any) {
	t.Helper()
	if a > b {
		fail(t, fmt.Sprintf("%v is greater than %v", a, b), message)
	}
}

// Positive fails unless the number is greater than zero.
func Positive[N cmp.Ordered](t TestingT, n N, message ...any) {
	t.Helper()
	var zero N
	Greater(t, n, zero, message...)
}
