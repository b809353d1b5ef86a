package failure

// AsUncertain returns an error that wraps err and [ErrUncertain], with the text of err. Nil
// stays nil.
func AsUncertain(err error) error {
	if err == nil {
		return nil
	}
	return &uncertainError{err}
}

type uncertainError struct{ err error }

func (e *uncertainError) Error() string { return e.err.Error() }

func (e *uncertainError) Unwrap() []error { return []error{e.err, ErrUncertain} }
