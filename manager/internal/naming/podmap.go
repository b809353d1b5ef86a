package naming

import (
	"iter"
	"slices"
)

// A PodMap maps the pods of a volume to values, sorted. Most volumes have one pod, for which
// a Go map would need ten times the memory. A nil PodMap is empty.
type PodMap[V any] []PodEntry[V]

// A PodEntry is an entry of a PodMap.
type PodEntry[V any] struct {
	Key   PodKey
	Value V
}

// find returns the index of a key, or the index at which to insert it.
func (m PodMap[V]) find(key PodKey) (at int, ok bool) {
	return slices.BinarySearchFunc(m, key, func(e PodEntry[V], key PodKey) int { return e.Key.Compare(key) })
}

// Get returns the value of a key, or the zero value.
func (m PodMap[V]) Get(key PodKey) (value V) {
	if at, ok := m.find(key); ok {
		value = m[at].Value
	}
	return value
}

// All returns the entries in the order of their keys.
func (m PodMap[V]) All() iter.Seq2[PodKey, V] {
	return func(yield func(PodKey, V) bool) {
		for _, e := range m {
			if !yield(e.Key, e.Value) {
				return
			}
		}
	}
}

// Set adds an entry, or replaces its value, in place.
func (m *PodMap[V]) Set(key PodKey, value V) {
	at, ok := m.find(key)
	if !ok {
		*m = slices.Insert(*m, at, PodEntry[V]{Key: key})
	}
	(*m)[at].Value = value
}

// With returns a copy with another value.
func (m PodMap[V]) With(key PodKey, value V) PodMap[V] {
	other := append(make(PodMap[V], 0, len(m)+1), m...)
	other.Set(key, value)
	return other
}

// Without returns a copy without a key.
func (m PodMap[V]) Without(key PodKey) PodMap[V] {
	at, ok := m.find(key)
	if !ok {
		return m
	}
	return slices.Concat(m[:at], m[at+1:])
}

// Difference returns a part of each map that contains all differing entries: it cuts off the
// equal entries at both ends.
func Difference[V comparable](before, after PodMap[V]) (removed, added PodMap[V]) {
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	return before, after
}
