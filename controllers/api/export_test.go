package api

// OwnStates returns the number of objects with an own state.
func OwnStates[O Object](o *Objects[O]) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.own)
}
