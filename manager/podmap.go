package manager

import (
	"iter"
	"slices"
)

// A podMap says something of the pods that have a volume, sorted. Most volumes have one
// pod, for which a map would take ten times the memory. The nil one is empty.
type podMap[V any] []podEntry[V]

type podEntry[V any] struct {
	key   podKey
	value V
}

func (m podMap[V]) find(key podKey) (at int, ok bool) {
	return slices.BinarySearchFunc(m, key, func(e podEntry[V], key podKey) int { return e.key.compare(key) })
}

// get returns the zero value for a pod that is not in it.
func (m podMap[V]) get(key podKey) (value V) {
	if at, ok := m.find(key); ok {
		value = m[at].value
	}
	return value
}

// all goes through the pods in their order.
func (m podMap[V]) all() iter.Seq2[podKey, V] {
	return func(yield func(podKey, V) bool) {
		for _, e := range m {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

// set adds a pod, or replaces its value.
func (m *podMap[V]) set(key podKey, value V) {
	at, ok := m.find(key)
	if !ok {
		*m = slices.Insert(*m, at, podEntry[V]{key: key})
	}
	(*m)[at].value = value
}

// with returns a copy with another value.
func (m podMap[V]) with(key podKey, value V) podMap[V] {
	other := append(make(podMap[V], 0, len(m)+1), m...)
	other.set(key, value)
	return other
}

// without returns a copy that lacks a pod.
func (m podMap[V]) without(key podKey) podMap[V] {
	at, ok := m.find(key)
	if !ok {
		return m
	}
	return slices.Concat(m[:at], m[at+1:])
}

// difference returns a part of each that holds all in which they differ.
func difference[V comparable](before, after podMap[V]) (gone, come podMap[V]) {
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	return before, after
}
