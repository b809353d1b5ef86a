package manager

// FailureCount returns the number of recorded failures, backoffs and wait reasons.
func (m *Manager) FailureCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failures.Len() + m.schedule.Retry.Len() + len(m.waitReasons) + len(m.eventTexts)
}

// PlanCount returns the number of plans made.
func (m *Manager) PlanCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.planned
}
