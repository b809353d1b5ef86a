package require

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// NoError fails if there is an error.
func NoError(t TestingT, err error, message ...any) {
	t.Helper()
	if err != nil {
		fail(t, "unexpected error: "+err.Error(), message)
	}
}

// Error fails if there is no error.
func Error(t TestingT, err error, message ...any) {
	t.Helper()
	if err == nil {
		fail(t, "should be an error", message)
	}
}

// ErrorIs fails unless errors.Is finds the target in the error.
func ErrorIs(t TestingT, err, target error, message ...any) {
	t.Helper()
	if !errors.Is(err, target) {
		fail(t, fmt.Sprintf("should wrap %q: %v", target, err), message)
	}
}

// NotErrorIs fails if errors.Is finds the target in the error.
func NotErrorIs(t TestingT, err, target error, message ...any) {
	t.Helper()
	if errors.Is(err, target) {
		fail(t, fmt.Sprintf("should not wrap %q: %v", target, err), message)
	}
}

// ErrorAs fails unless errors.As finds an error of the type that target points to.
func ErrorAs(t TestingT, err error, target any, message ...any) {
	t.Helper()
	if !errors.As(err, target) {
		fail(t, fmt.Sprintf("should be a %s: %v", reflect.TypeOf(target).Elem(), err), message)
	}
}

// ErrorContains fails unless the error's text contains the other one.
func ErrorContains(t TestingT, err error, text string, message ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		fail(t, fmt.Sprintf("should contain %q: %v", text, err), message)
	}
}
