package require

import (
	"fmt"
	"reflect"
)

// TestingT has the methods of a test that assertions use.
type TestingT interface {
	Helper()
	Fatalf(format string, args ...any)
}

// fail ends the test with the fault and the caller's message, a format and its arguments.
func fail(t TestingT, wrong string, message []any) {
	t.Helper()
	switch len(message) {
	case 0:
		t.Fatalf("%s", wrong)
	case 1:
		t.Fatalf("%s: %v", wrong, message[0])
	default:
		t.Fatalf("%s: %s", wrong, fmt.Sprintf(fmt.Sprint(message[0]), message[1:]...))
	}
}

// True fails unless ok.
func True(t TestingT, ok bool, message ...any) {
	t.Helper()
	if !ok {
		fail(t, "should be true", message)
	}
}

// False fails if ok.
func False(t TestingT, ok bool, message ...any) {
	t.Helper()
	if ok {
		fail(t, "should be false", message)
	}
}

// Equal fails unless both are deeply equal.
func Equal(t TestingT, want, got any, message ...any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		fail(t, "not equal:\n"+describe(want, got), message)
	}
}

// NotEqual fails if both are deeply equal.
func NotEqual(t TestingT, other, got any, message ...any) {
	t.Helper()
	if reflect.DeepEqual(other, got) {
		fail(t, fmt.Sprintf("should differ: %+v", got), message)
	}
}

// Zero fails unless the value is its type's zero value.
func Zero(t TestingT, value any, message ...any) {
	t.Helper()
	if !isZero(value) {
		fail(t, fmt.Sprintf("should be zero: %+v", value), message)
	}
}

// NotZero fails if the value is its type's zero value.
func NotZero(t TestingT, value any, message ...any) {
	t.Helper()
	if isZero(value) {
		fail(t, "should not be zero", message)
	}
}

func isZero(value any) bool {
	return value == nil || reflect.ValueOf(value).IsZero()
}

// Nil fails unless the function, interface, map, pointer or slice is nil.
func Nil(t TestingT, value any, message ...any) {
	t.Helper()
	if !isZero(value) {
		fail(t, fmt.Sprintf("should be nil: %T", value), message)
	}
}

// NotNil fails if the function, interface, map, pointer or slice is nil.
func NotNil(t TestingT, value any, message ...any) {
	t.Helper()
	if isZero(value) {
		fail(t, "should not be nil", message)
	}
}
