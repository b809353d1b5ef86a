package bind

// Finishing returns the number of claims whose volume has the phase Bound, as the controller remembers.
func (c *Controller) Finishing() int {
	c.finishing.mu.Lock()
	defer c.finishing.mu.Unlock()
	return len(c.finishing.versions)
}
