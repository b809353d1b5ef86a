package desired

// A FailedVolume is an unresolved volume of a pod.
type FailedVolume struct {
	Name string // in the specification of the pod
	Err  error
	// Pending says that a read is in flight; Err is then the error before the read, if any.
	Pending bool
	// KeepExisting says that the pod's existing volumes stay as they are.
	KeepExisting bool
	// AwaitsChange says that only a change of the sources can end the error: it is not retried.
	AwaitsChange bool
	// IsFinal says that no change of the cluster or of other pods can end the error.
	IsFinal bool
}

// IsSame reports whether both have the same fields, and errors of the same text.
func (f FailedVolume) IsSame(other FailedVolume) bool {
	sameError := f.Err.Error() == other.Err.Error()
	f.Err, other.Err = nil, nil
	return sameError && f == other
}
