package child

// StartGuard starts a guard of a hold. The function releases it and returns the error of
// its exit.
func StartGuard(hold int) (release func() error, err error) {
	guard, err := startGuard(hold)
	return func() error { guard.release(); return guard.reap() }, err
}
