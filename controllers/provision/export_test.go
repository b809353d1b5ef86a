package provision

// Remembered returns the number of claims in the memory of the controller.
func (c *Controller) Remembered() int {
	c.ofClaims.mu.Lock()
	defer c.ofClaims.mu.Unlock()
	return len(c.ofClaims.byKey)
}
