package modify

// Remembered returns the number of claims in the memory of the controller.
func (c *Controller) Remembered() int { return c.attempts.Len() }
