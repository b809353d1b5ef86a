// Package attempts keeps the results of the last calls of a controller, one for each object.
package attempts

import (
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	"k8s.io/apimachinery/pkg/types"
)

// A Map has the last attempts for objects. An object that was deleted and created again has none. The zero
// value is empty. Its methods are safe for concurrent use.
type Map[A any] struct {
	mu sync.Mutex
	of map[api.Key]entry[A]
}

type entry[A any] struct {
	object  types.UID
	attempt A
}

// Get returns the last attempt for an object, and the zero value if there is none.
func (m *Map[A]) Get(key api.Key, object types.UID) (attempt A) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.of[key]; last.object == object {
		return last.attempt
	}
	return attempt
}

// Set replaces the attempt for an object.
func (m *Map[A]) Set(key api.Key, object types.UID, attempt A) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[api.Key]entry[A]{}
	}
	m.of[key] = entry[A]{object, attempt}
}

// Forget drops the attempt for the object of a key.
func (m *Map[A]) Forget(key api.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, key)
}

// Len returns the number of objects with an attempt.
func (m *Map[A]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.of)
}
