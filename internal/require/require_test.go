package require_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/volumekit/volumekit/internal/require"
)

// failure is a test that records the text of its failure.
type failure struct{ text string }

func (*failure) Helper() {}

func (f *failure) Fatalf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }

// Each assertion passes where it should and fails where it should: a contract whose
// assertions always pass tests nothing.
func TestAssertions(t *testing.T) {
	cause := fmt.Errorf("open: %w", fs.ErrNotExist)
	path := &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}
	var target *fs.PathError
	type check = func(t require.TestingT)
	for name, test := range map[string]struct{ pass, fail check }{
		"True":  {func(t require.TestingT) { require.True(t, true) }, func(t require.TestingT) { require.True(t, false) }},
		"False": {func(t require.TestingT) { require.False(t, false) }, func(t require.TestingT) { require.False(t, true) }},
		"Equal": {
			func(t require.TestingT) { require.Equal(t, []string{"a"}, []string{"a"}) },
			func(t require.TestingT) { require.Equal(t, 1, int64(1)) },
		},
		"Zero":           {func(t require.TestingT) { require.Zero(t, 0) }, func(t require.TestingT) { require.Zero(t, 1) }},
		"NotZero":        {func(t require.TestingT) { require.NotZero(t, 1) }, func(t require.TestingT) { require.NotZero(t, nil) }},
		"NotEqual":       {func(t require.TestingT) { require.NotEqual(t, 1, 2) }, func(t require.TestingT) { require.NotEqual(t, "a", "a") }},
		"Nil":            {func(t require.TestingT) { require.Nil(t, (func())(nil)) }, func(t require.TestingT) { require.Nil(t, &target) }},
		"NotNil":         {func(t require.TestingT) { require.NotNil(t, func() {}) }, func(t require.TestingT) { require.NotNil(t, (*int)(nil)) }},
		"Greater":        {func(t require.TestingT) { require.Greater(t, 2, 1) }, func(t require.TestingT) { require.Greater(t, 1, 1) }},
		"Less":           {func(t require.TestingT) { require.Less(t, 1, 2) }, func(t require.TestingT) { require.Less(t, 1, 1) }},
		"LessOrEqual":    {func(t require.TestingT) { require.LessOrEqual(t, 1, 1) }, func(t require.TestingT) { require.LessOrEqual(t, 2, 1) }},
		"Positive":       {func(t require.TestingT) { require.Positive(t, 1) }, func(t require.TestingT) { require.Positive(t, 0) }},
		"GreaterOrEqual": {func(t require.TestingT) { require.GreaterOrEqual(t, 1, 1) }, func(t require.TestingT) { require.GreaterOrEqual(t, 1, 2) }},
		"Len":            {func(t require.TestingT) { require.Len(t, []int{1}, 1) }, func(t require.TestingT) { require.Len(t, []int{1}, 2) }},
		"Empty":          {func(t require.TestingT) { require.Empty(t, "") }, func(t require.TestingT) { require.Empty(t, []int{1}) }},
		"Contains": {
			func(t require.TestingT) { require.Contains(t, []int{1, 2}, 2) },
			func(t require.TestingT) { require.Contains(t, []int{1, 2}, 3) },
		},
		"NotEmpty": {func(t require.TestingT) { require.NotEmpty(t, "a") }, func(t require.TestingT) { require.NotEmpty(t, []int{}) }},
		"Subset": {
			func(t require.TestingT) { require.Subset(t, []int{1, 2}, []int{2}) },
			func(t require.TestingT) { require.Subset(t, []int{1, 2}, []int{2, 3}) },
		},
		"ElementsMatch": {
			func(t require.TestingT) { require.ElementsMatch(t, []int{1, 2}, []int{2, 1}) },
			func(t require.TestingT) { require.ElementsMatch(t, []int{1, 2}, []int{2, 2}) },
		},
		"ElementsMatch, too many": {
			func(t require.TestingT) { require.ElementsMatch(t, []int{}, nil) },
			func(t require.TestingT) { require.ElementsMatch(t, []int{1}, []int{1, 1}) },
		},
		"IsIncreasing": {
			func(t require.TestingT) { require.IsIncreasing(t, []string{"a", "b"}) },
			func(t require.TestingT) { require.IsIncreasing(t, []string{"a", "a"}) },
		},
		"Regexp":  {func(t require.TestingT) { require.Regexp(t, "^a+$", "aa") }, func(t require.TestingT) { require.Regexp(t, "^a+$", "ab") }},
		"NoError": {func(t require.TestingT) { require.NoError(t, nil) }, func(t require.TestingT) { require.NoError(t, cause) }},
		"Error":   {func(t require.TestingT) { require.Error(t, cause) }, func(t require.TestingT) { require.Error(t, nil) }},
		"ErrorIs": {
			func(t require.TestingT) { require.ErrorIs(t, cause, fs.ErrNotExist) },
			func(t require.TestingT) { require.ErrorIs(t, nil, fs.ErrNotExist) },
		},
		"NotErrorIs": {
			func(t require.TestingT) { require.NotErrorIs(t, cause, fs.ErrExist) },
			func(t require.TestingT) { require.NotErrorIs(t, cause, fs.ErrNotExist) },
		},
		"ErrorAs": {
			func(t require.TestingT) { require.ErrorAs(t, path, &target) },
			func(t require.TestingT) { require.ErrorAs(t, errors.New("x"), &target) },
		},
		"ErrorContains": {
			func(t require.TestingT) { require.ErrorContains(t, cause, "open") },
			func(t require.TestingT) { require.ErrorContains(t, nil, "") },
		},
		"NoFileExists": {
			func(t require.TestingT) { require.NoFileExists(t, "none") },
			func(t require.TestingT) { require.NoFileExists(t, "require_test.go") },
		},
		"FileExists": {
			func(t require.TestingT) { require.FileExists(t, "require_test.go") },
			func(t require.TestingT) { require.FileExists(t, ".") },
		},
		"DirExists": {
			func(t require.TestingT) { require.DirExists(t, ".") },
			func(t require.TestingT) { require.DirExists(t, "require_test.go") },
		},
		"NoDirExists": {
			func(t require.TestingT) { require.NoDirExists(t, "none") },
			func(t require.TestingT) { require.NoDirExists(t, ".") },
		},
	} {
		var passed, failed failure
		test.pass(&passed)
		if passed.text != "" {
			t.Errorf("%s fails: %s", name, passed.text)
		}
		test.fail(&failed)
		if failed.text == "" {
			t.Errorf("%s does not fail", name)
		}
	}
}

// TestMessage: the message of an assertion follows its text, formatted if it has arguments.
func TestMessage(t *testing.T) {
	for want, message := range map[string][]any{
		"should be true":           nil,
		"should be true: %d":       {"%d"},
		"should be true: 1 is one": {"%d is one", 1},
	} {
		var f failure
		require.True(&f, false, message...)
		if f.text != want {
			t.Errorf("%q, want %q", f.text, want)
		}
	}
}

// TestEqualListsDifferences: the message has the parts that differ, not all of two large values.
func TestEqualListsDifferences(t *testing.T) {
	type state struct {
		Files map[string]fs.FileMode
		List  []string
		Err   error
		next  *state
	}
	files := map[string]fs.FileMode{"a": 0o600, "b": 0o600}
	want := state{Files: files, List: []string{"x"}, next: &state{}}
	for text, change := range map[string]func(*state){
		".Files[a]: want -rw-------, got nothing":    func(s *state) { s.Files = map[string]fs.FileMode{"b": 0o600} },
		".Files[b]: want -rw-------, got -r--------": func(s *state) { s.Files = map[string]fs.FileMode{"a": 0o600, "b": 0o400} },
		".Files[c]: want nothing, got -rw-------":    func(s *state) { s.Files = map[string]fs.FileMode{"a": 0o600, "b": 0o600, "c": 0o600} },
		".List[1]: want nothing, got y":              func(s *state) { s.List = []string{"x", "y"} },
		".Err: want <nil>, got file does not exist":  func(s *state) { s.Err = fs.ErrNotExist },
		".next.next: want <nil>, got &{":             func(s *state) { s.next = &state{next: &state{}} },
	} {
		got := want
		change(&got)
		var f failure
		require.Equal(&f, want, got)
		if !strings.HasPrefix(f.text, "not equal:\n"+text) {
			t.Errorf("%q, want %q", f.text, text)
		}
	}
	var f failure
	require.Equal(&f, 1, int64(1))
	if f.text != "not equal:\nwant 1, got 1\n" {
		t.Errorf("%q", f.text)
	}
}
