package require

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
)

// Len fails unless the list has so many elements.
func Len(t TestingT, list any, want int, message ...any) {
	t.Helper()
	if got := reflect.ValueOf(list).Len(); got != want {
		fail(t, fmt.Sprintf("should have %d elements, has %d: %+v", want, got, list), message)
	}
}

// Empty fails unless the list or string is empty.
func Empty(t TestingT, list any, message ...any) {
	t.Helper()
	Len(t, list, 0, message...)
}

// NotEmpty fails if the list or string is empty.
func NotEmpty(t TestingT, list any, message ...any) {
	t.Helper()
	if reflect.ValueOf(list).Len() == 0 {
		fail(t, "should not be empty", message)
	}
}

// Contains fails unless one element of the list is equal to the element.
func Contains[E any](t TestingT, list []E, element E, message ...any) {
	t.Helper()
	if !slices.ContainsFunc(list, func(e E) bool { return reflect.DeepEqual(e, element) }) {
		fail(t, fmt.Sprintf("%+v does not contain %+v", list, element), message)
	}
}

// Subset fails unless each element of the subset is equal to one of the list.
func Subset[E any](t TestingT, list, subset []E, message ...any) {
	t.Helper()
	for _, element := range subset {
		Contains(t, list, element, message...)
	}
}

// ElementsMatch fails unless the lists have the same elements, in any order.
func ElementsMatch[E any](t TestingT, want, got []E, message ...any) {
	t.Helper()
	rest := slices.Clone(got)
	for _, w := range want {
		at := slices.IndexFunc(rest, func(e E) bool { return reflect.DeepEqual(e, w) })
		if at < 0 {
			fail(t, fmt.Sprintf("%+v is missing in %+v", w, got), message)
			return
		}
		rest = slices.Delete(rest, at, at+1)
	}
	if len(rest) > 0 {
		fail(t, fmt.Sprintf("too many in %+v: %+v", got, rest), message)
	}
}

// IsIncreasing fails unless each string is greater than the one before.
func IsIncreasing(t TestingT, list []string, message ...any) {
	t.Helper()
	for i := range list {
		if i > 0 && list[i-1] >= list[i] {
			fail(t, fmt.Sprintf("%q is not sorted, or not without repetition", list), message)
			return
		}
	}
}

// Regexp fails unless the text matches the regular expression.
func Regexp(t TestingT, expression, text string, message ...any) {
	t.Helper()
	if !regexp.MustCompile(expression).MatchString(text) {
		fail(t, fmt.Sprintf("%q does not match %q", text, expression), message)
	}
}
