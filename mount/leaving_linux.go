package mount

// leaving is what unmounting remembers.
type leaving struct {
	ends   ends
	asked  questions
	forced firsts
	calm   calm
}
