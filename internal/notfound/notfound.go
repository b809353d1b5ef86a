// Package notfound names objects that a reader of API objects could not return, each once.
package notfound

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volumekit/volumekit/internal/brief"
)

// Is reports whether an error says that an object is missing: it wraps fs.ErrNotExist, or is one of the API
// server's.
func Is(err error) bool { return errors.Is(err, fs.ErrNotExist) || apierrors.IsNotFound(err) }

// Object returns the error of a missing object, such as "claim default/data", which wraps fs.ErrNotExist.
func Object(object string) error { return &missing{object, fs.ErrNotExist} }

// Named adds the name of an object to the error of its reader. The text has the name once, whether the error
// names the object or not. An error which says no more than that this object is missing gets one text.
func Named(object string, err error) error {
	name := unquoted(object)
	rest, isNamed := strings.CutPrefix(unquoted(err.Error()), name+": ")
	switch {
	case saysOnly(err, rest, name):
		return &missing{object, err}
	case isNamed:
		return brief.Of(err)
	}
	return brief.Of(fmt.Errorf("%s: %w", object, err))
}

// saysOnly reports whether the text of an error, without the name before it, is that the object is missing. The
// error of a server can be about another object, such as the namespace, or about a path that it does not serve.
func saysOnly(err error, text, name string) bool {
	var ours *missing
	var server apierrors.APIStatus
	switch {
	case errors.As(err, &ours):
		return text == unquoted(ours.Error()) && name == unquoted(ours.object)
	case errors.As(err, &server):
		status := server.Status()
		return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err) && text == unquoted(status.Message) &&
			status.Details != nil && (strings.HasSuffix(name, "/"+status.Details.Name) || strings.HasSuffix(name, " "+status.Details.Name))
	}
	return errors.Is(err, fs.ErrNotExist) && text == fs.ErrNotExist.Error()
}

func unquoted(text string) string { return strings.ReplaceAll(text, `"`, "") }

type missing struct {
	object string
	err    error
}

func (m *missing) Error() string { return brief.Text(m.object) + " not found" }

func (m *missing) Unwrap() error { return m.err }
