package manager

// Remembered counts what is remembered of failures.
func (m *Manager) Remembered() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.failures) + len(m.retry) + len(m.waits) + len(m.told)
}
